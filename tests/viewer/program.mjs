/**
 * The program, for tests of the pages that it writes. MEMTRACE is its path, and STRANGE_TRACE that of
 * tests/strange_trace.c, which makes a trace of strange names. CTest sets both.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const MEMTRACE = process.env.MEMTRACE;
export const STRANGE_TRACE = process.env.STRANGE_TRACE;

/** Runs the program in `folder` and returns its stdout. It must end with `code`. */
export function memtrace(folder, args, code = 0) {
    const { status, stdout, stderr } = spawnSync(MEMTRACE, args, { cwd: folder, encoding: "utf8", maxBuffer: 2 ** 28 });
    if (status !== code) throw new Error(`memtrace ${args.join(" ")} ended with ${status}: ${stderr}`);
    return stdout;
}

/** Returns a command's JSON. */
export function ask(folder, ...args) {
    return JSON.parse(memtrace(folder, [...args, "--json"]));
}

/** Runs the model on the simulated card, as a run called `name`. */
export function simulate(folder, name, args, code = 0) {
    memtrace(folder, ["run", "--device", "sim", "--model", "2.7B", "--name", name, ...args], code);
}

/** Writes the page FILE.html with the runs in `args`, and returns its URL. */
export function writeTimeline(folder, file, args) {
    memtrace(folder, ["timeline", ...args, "-o", `${file}.html`]);
    return pathToFileURL(join(folder, `${file}.html`)).href;
}

/** Makes the trace of strange names. */
export function makeStrangeTrace(folder, file) {
    execFileSync(STRANGE_TRACE, [file], { cwd: folder });
}
