/**
 * The worker: decodes the chunks that the page sends. Sends back the description, each run in two parts, and then the
 * data that the first picture does not need: exact times, uses of blocks, and call stacks. An error is sent as its text.
 */
import { UNLABELLED } from "./colors.js";
import { inflate, readDescription, readTable } from "./decode.js";
import { buffersOf, buildBlocks, buildMemory } from "./store.js";
import { timesOf } from "./times.js";

/**
 * The arrays of columns that need a certain type. Times have one more element, for the run's end.
 * @type {Record<string, Record<string, (rows: number) => NumberArray>>}
 */
const ARRAYS = {
    blocks: { alloc: (rows) => new Uint32Array(rows) },
    events: { time: (rows) => new Float64Array(rows + 1) },
    marks: { event: (rows) => new Uint32Array(rows) },
};

/** The chunks that have arrived. A reader waits for a chunk that has not. */
class Inbox {
    constructor() {
        /** @type {string[]} */
        this.texts = [];
        this.ended = false;
        this.arrived = () => {};
    }

    /**
     * @param {number} number
     * @param {?string} text
     */
    put(number, text) {
        if (text === null) this.ended = true;
        else this.texts[number] = text;
        this.arrived();
    }

    /**
     * Returns the bytes of a chunk. Chunks are read once, and one after the other.
     * @param {number} number
     */
    async chunk(number) {
        while (this.texts[number] === undefined) {
            if (this.ended) throw new Error(`the page is cut off: chunk ${number} is missing`);
            await new Promise((resolve) => {
                this.arrived = () => resolve(undefined);
            });
        }
        const bytes = await inflate(this.texts[number]);
        this.texts[number] = ""; // otherwise half of the page's memory
        return bytes;
    }
}

/**
 * Sends data of a run, and transfers its arrays to the page.
 * @param {string} kind
 * @param {number} number
 * @param {unknown} value
 */
function send(kind, number, value) {
    postMessage({ kind, number, [kind]: value }, { transfer: [...buffersOf(value)] });
}

/** @param {Inbox} inbox */
async function read(inbox) {
    /** @param {number} number */
    const chunk = (number) => inbox.chunk(number);
    const description = readDescription(await chunk(0));
    description.categories.push(UNLABELLED);
    postMessage({ kind: "description", description });
    /** @param {Pick<RunInfo, "tables">} info */
    const tablesOf = ({ tables }) => {
        return async (/** @type {string} */ name) => tables[name] && readTable(name, tables[name], chunk, ARRAYS[name]);
    };
    for (const [number, { tables, ...info }] of description.runs.entries()) {
        const table = tablesOf({ tables });
        const { run, events } = await buildBlocks(description, info, table);
        send("run", number, run);
        send("memory", number, await buildMemory(description, info, table, events));
    }
    for (const [number, run] of description.runs.entries()) {
        const events = await tablesOf(run)("events");
        send("time", number, timesOf(/** @type {Float64Array} */ (events?.time), run.event_count, run.time_unit_ns));
        send("uses", number, (await tablesOf(run)("uses")) ?? null);
        const stacks = await tablesOf(run)("stacks");
        const callers = await tablesOf(run)("callers");
        send("stacks", number, stacks && callers ? { ...stacks, of: callers.stack } : null);
    }
    postMessage({ kind: "end" });
}

const inbox = new Inbox();
self.onmessage = ({ data }) => inbox.put(data.number, data.text);
read(inbox).catch((error) => postMessage({ kind: "error", text: String(error.message ?? error) }));
