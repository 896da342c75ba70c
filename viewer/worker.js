/**
 * The worker: decodes the chunks that the page sends it, and sends back the description, each run in two parts, and then what no first
 * picture needs: the exact times, and what is known of uses. An error goes back as its text.
 */
import { UNLABELLED } from "./colors.js";
import { inflate, readDescription, readTable } from "./decode.js";
import { buffersOf, buildBlocks, buildMemory } from "./store.js";
import { timesOf } from "./times.js";

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

/** Sends something of a run, whose arrays are the page's from then on. */
function send(kind, number, value) {
    postMessage({ kind, number, [kind]: value }, [...buffersOf(value)]);
}

async function read(inbox) {
    const chunk = (number) => inbox.chunk(number);
    const description = readDescription(await chunk(0));
    description.categories.push(UNLABELLED);
    postMessage({ kind: "description", description });
    const tablesOf = ({ tables }) => {
        return async (name) => tables[name] && readTable(name, tables[name], chunk, ARRAYS[name]);
    };
    for (const [number, { tables, ...info }] of description.runs.entries()) {
        const table = tablesOf({ tables });
        const { run, events } = await buildBlocks(description, info, table);
        send("run", number, run);
        send("memory", number, await buildMemory(description, info, table, events));
    }
    for (const [number, run] of description.runs.entries()) {
        const { time } = await tablesOf(run)("events");
        send("time", number, timesOf(time, run.event_count, run.time_unit_ns));
        send("uses", number, (await tablesOf(run)("uses")) ?? null);
    }
    postMessage({ kind: "end" });
}

const inbox = new Inbox();
self.onmessage = ({ data }) => inbox.put(data.number, data.text);
read(inbox).catch((error) => postMessage({ kind: "error", text: String(error.message ?? error) }));
