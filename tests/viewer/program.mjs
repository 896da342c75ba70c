/**
 * The program, for tests of the pages that it writes: MEMTRACE names it, and STRANGE_TRACE the one that makes a trace of
 * strange names (tests/strange_trace.c). CTest sets both.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const MEMTRACE = process.env.MEMTRACE;
export const STRANGE_TRACE = process.env.STRANGE_TRACE;

/** Runs the program in `folder`; what it says on stdout. It must end with `code`. */
export function memtrace(folder, args, code = 0) {
    const { status, stdout, stderr } = spawnSync(MEMTRACE, args, { cwd: folder, encoding: "utf8", maxBuffer: 2 ** 28 });
    if (status !== code) throw new Error(`memtrace ${args.join(" ")} ended with ${status}: ${stderr}`);
    return stdout;
}

/** A command's JSON. */
export function ask(folder, ...args) {
    return JSON.parse(memtrace(folder, [...args, "--json"]));
}

/** Runs the model on the simulated card; `name` is the run's. */
export function simulate(folder, name, args, code = 0) {
    memtrace(folder, ["run", "--device", "sim", "--model", "2.7B", "--name", name, ...args], code);
}

/** Writes the page FILE.html of the runs that `args` name; its URL. */
export function writeTimeline(folder, file, args) {
    memtrace(folder, ["timeline", ...args, "-o", `${file}.html`]);
    return pathToFileURL(join(folder, `${file}.html`)).href;
}

/** Makes the trace of strange names. */
export function makeStrangeTrace(folder, file) {
    execFileSync(STRANGE_TRACE, [file], { cwd: folder });
}
