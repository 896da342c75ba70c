/**
 * Writes pages by docs/page.md, for tests: the reference for `memtrace timeline`. The shell comes from
 * tools/page.cmake, as it does for the program.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateSync } from "node:zlib";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PART_ROWS = 65536;

/** The columns of each table, in order, with their coding. The tables are in the order of the file. */
const COLUMNS = {
    sizes: { requested: "plain", block: "plain" },
    labels: {
        category: "plain",
        role: "plain",
        op: "plain",
        dtype: "plain",
        shape: "plain",
        span: "plain",
        place: "plain",
        phase: "plain",
        layer: "plain",
    },
    segments: { address: "plain", bytes: "plain", stream: "plain", mapped: "delta", life: "plain" },
    parts: { segment: "plain", offset: "plain", bytes: "plain", mapped: "plain", life: "plain" },
    knots: { event: "delta", time: "delta" },
    blocks: { alloc: "delta", life: "plain", segment: "plain", offset: "plain", size: "plain", label: "plain" },
    marks: { event: "delta", kind: "plain", value: "plain", span: "plain", label: "plain" },
    kernels: { start: "delta", duration: "plain", name: "plain", label: "plain", stream: "plain" },
    program_phases: { event: "delta", name: "plain" },
    events: { time: "delta" },
    uses: {
        flags: "plain",
        reads: "plain",
        writes: "plain",
        first: "plain",
        last: "plain",
        idle_from: "plain",
        idle: "plain",
        source: "plain",
    },
    stacks: { parent: "plain", function: "plain", file: "plain", line: "plain" },
    callers: { stack: "plain" },
};

/** The tables that the first picture needs, of every run, come before the others. */
const REST = ["events", "uses", "stacks", "callers"];
const FIRST = Object.keys(COLUMNS).filter((name) => !REST.includes(name));

/** True if the line between two events is as close to the times between as the lines of knots are. */
function isNear(time, from, to) {
    const pitch = (time[to] - time[from]) / (to - from);
    for (let i = from; i < to; i++)
        if (Math.abs(time[from] + (i - from) * pitch - time[i]) > (time.at(-1) - time[0]) / 8192) return false;
    return true;
}

/**
 * Returns knots: events with lines between them that approximate all times. Each line is twice as long as the one
 * before, or half.
 */
function findKnots(time) {
    const event = time.length > 0 ? [0] : [];
    for (let from = 0, reach = 1; from < time.length - 1; reach *= 2) {
        let to = Math.min(time.length - 1, from + reach);
        while (to > from + 1 && !isNear(time, from, to)) to = from + Math.ceil((to - from) / 2);
        event.push(to);
        reach = to - from;
        from = to;
    }
    return { event, time: event.map((each) => time[each]) };
}

/** Returns the largest power of two, up to 4096, that divides every value. */
function unitOf(values) {
    let unit = 4096;
    for (const value of values) while (value % unit !== 0) unit /= 2;
    return unit;
}

function widthOf(largest) {
    let width = 0;
    while (largest >= 256 ** width) width++;
    return largest === 0 ? 0 : width;
}

function storedNumbers(values, coding, unit) {
    const stored = new Float64Array(values.length);
    for (let i = 0; i < values.length; i++) {
        const previous = i % PART_ROWS === 0 ? values[i] : values[i - 1];
        stored[i] = (coding === "delta" ? values[i] - previous : values[i]) / unit;
    }
    return stored;
}

function encodeTable(name, table, chunks) {
    const rows = Object.values(table)[0].length;
    const columns = Object.entries(COLUMNS[name]).map(([column, coding]) => {
        const unit = unitOf(table[column]);
        const stored = storedNumbers(table[column], coding, unit);
        let largest = 0;
        for (const value of stored) if (value > largest) largest = value;
        const first = table[column].filter((_, i) => i % PART_ROWS === 0);
        return { name: column, width: widthOf(largest), coding, unit, first, stored };
    });
    const description = {
        rows,
        part_rows: PART_ROWS,
        first_chunk: chunks.length,
        columns: columns.map(({ name, width, coding, unit, first }) =>
            coding === "delta" ? { name, width, coding, unit, first } : { name, width, coding, unit },
        ),
    };
    for (let from = 0; from < rows; from += PART_ROWS) chunks.push(deflateSync(packPart(columns, from, rows)));
    return description;
}

function packPart(columns, from, allRows) {
    const rows = Math.min(PART_ROWS, allRows - from);
    const bytes = new Uint8Array(columns.reduce((sum, { width }) => sum + width * rows, 0));
    let at = 0;
    for (const { width, stored } of columns)
        for (let plane = 0; plane < width; plane++)
            for (let i = 0; i < rows; i++) bytes[at++] = Math.floor(stored[from + i] / 256 ** plane) % 256;
    return bytes;
}

/**
 * Returns the chunks of a page.
 * @param {{texts: string[], categories: string[], phases: string[],
 *          runs: {info: Object, tables: Object}[]}} page
 * @returns {Buffer[]}
 */
export function encodeChunks(page) {
    const chunks = [null];
    const runs = page.runs.map(({ info }) => ({ ...info, tables: {} }));
    for (const names of [FIRST, REST])
        page.runs.forEach(({ tables }, number) => {
            const all = { ...tables, knots: findKnots(tables.events.time) };
            for (const name of names) if (all[name]) runs[number].tables[name] = encodeTable(name, all[name], chunks);
        });
    const { texts, categories, phases } = page;
    const description = { format: 3, program: "memtrace test", texts, categories, phases, runs };
    chunks[0] = deflateSync(Buffer.from(JSON.stringify(description)));
    return chunks;
}

let shell; // made once a process

/** Returns the page without its data, which CMake makes of viewer/. */
export function makeShell() {
    if (shell) return shell;
    const folder = mkdtempSync(join(tmpdir(), "memtrace-page-"));
    const output = join(folder, "page.html");
    execFileSync("cmake", [
        `-DVIEWER=${join(ROOT, "viewer")}`,
        `-DOUTPUT=${output}`,
        "-P",
        join(ROOT, "tools/page.cmake"),
    ]);
    shell = readFileSync(output, "utf8");
    rmSync(folder, { recursive: true });
    return shell;
}

function encodeSet(set, chunks) {
    const script = (bytes, i) =>
        `<script type="application/octet-stream;base64" id="${set}chunk-${i}">${bytes.toString("base64")}</script>\n`;
    return chunks.map(script).join("");
}

/** Returns a whole page as text: with `job`, also its ranks, and the data of each in `others`, by rank. */
export function encodePage(page) {
    const [head, tail] = makeShell().split("<!-- chunks -->");
    const { job, others = {} } = page;
    const sets = Object.entries(others).map(([rank, other]) => encodeSet(`rank${rank}-`, encodeChunks(other)));
    const ranks = job ? encodeSet("ranks-", [deflateSync(Buffer.from(JSON.stringify(job)))]) : "";
    return head + encodeSet("", encodeChunks(page)) + ranks + sets.join("") + tail;
}

export function writePage(path, page) {
    writeFileSync(path, encodePage(page));
}
