/**
 * The worker: decodes the chunks that the page sends it, and sends back the description, each run, and what is known of
 * uses, which no first picture needs. An error goes back as its text.
 */
import { UNLABELLED } from "./colors.js";
import { inflate, readDescription, readTable } from "./decode.js";
import { buffersOf, buildRun } from "./store.js";

/** What is read into an array of the kind in which it stays. Of times there is one more: the run's end. */
const ARRAYS = {
    blocks: { alloc: (rows) => new Uint32Array(rows) },
    events: { time: (rows) => new Float64Array(rows + 1) },
    marks: { event: (rows) => new Uint32Array(rows) },
};

/** The chunks as they come: whoever asks for one that is not there yet waits for it. */
class Inbox {
    constructor() {
        Object.assign(this, { texts: [], ended: false, arrived: () => {} });
    }

    put(number, text) {
        if (text === null) this.ended = true;
        else this.texts[number] = text;
        this.arrived();
    }

    /** The bytes of a chunk. They are read once, and one after the other. */
    async chunk(number) {
        while (this.texts[number] === undefined) {
            if (this.ended) throw new Error(`the page is cut off: chunk ${number} is missing`);
            await new Promise((resolve) => {
                this.arrived = resolve;
            });
        }
        const bytes = await inflate(this.texts[number]);
        this.texts[number] = ""; // half of the page's memory otherwise
        return bytes;
    }
}

async function read(inbox) {
    const chunk = (number) => inbox.chunk(number);
    const description = readDescription(await chunk(0));
    description.categories.push(UNLABELLED);
    postMessage({ kind: "description", description });
    for (let i = 0; i < description.runs.length; i++) {
        const { tables, ...info } = description.runs[i];
        const table = async (name) => tables[name] && readTable(name, tables[name], chunk, ARRAYS[name]);
        const run = await buildRun(description, info, table);
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

const inbox = new Inbox();
self.onmessage = ({ data }) => inbox.put(data.number, data.text);
read(inbox).catch((error) => postMessage({ kind: "error", text: String(error.message ?? error) }));
