/**
 * The worker: decodes the chunks that the page sends it, and sends back the description, each run, and what is known of
 * uses, which no first picture needs. An error goes back as its text.
 */
import { UNLABELLED } from "./colors.js";
import { inflate, readDescription, readTable } from "./decode.js";
import { buffersOf, buildRun } from "./store.js";

const FIRST_TABLES = ["events", "sizes", "labels", "segments", "parts", "blocks", "marks", "kernels"];
/** What is read into an array of the kind in which it stays. Of times there is one more: the run's end. */
const ARRAYS = {
    blocks: { alloc: (rows) => new Uint32Array(rows) },
    events: { time: (rows) => new Float64Array(rows + 1) },
    marks: { event: (rows) => new Uint32Array(rows) },
};

async function readRun(description, info, chunk) {
    const tables = {};
    for (const name of FIRST_TABLES)
        if (info.tables[name]) tables[name] = await readTable(name, info.tables[name], chunk, ARRAYS[name]);
    tables.labels.category[0] = description.categories.length - 1; // instead of the first, which 0 would be
    return buildRun(description, info, tables);
}

async function read(chunks) {
    const chunk = async (number) => {
        if (chunks[number] === undefined) throw new Error(`the page is cut off: chunk ${number} is missing`);
        const bytes = await inflate(chunks[number]);
        chunks[number] = ""; // read once; half of the page's memory otherwise
        return bytes;
    };
    const description = await readDescription(chunks[0] ?? "");
    description.categories.push(UNLABELLED);
    postMessage({ kind: "description", description });
    for (let i = 0; i < description.runs.length; i++) {
        const run = await readRun(description, description.runs[i], chunk);
        postMessage({ kind: "run", number: i, run }, [...buffersOf(run)]);
    }
    for (let i = 0; i < description.runs.length; i++) {
        const table = description.runs[i].tables.uses;
        if (!table) continue;
        const uses = await readTable("uses", table, chunk);
        postMessage({ kind: "uses", number: i, uses }, [...buffersOf(uses)]);
    }
    postMessage({ kind: "end" });
}

self.onmessage = (message) => {
    read(message.data).catch((error) => postMessage({ kind: "error", text: String(error.message ?? error) }));
};
