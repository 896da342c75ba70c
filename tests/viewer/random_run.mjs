/** Random runs as the worker builds them, and random numbers for tests on them. */
import { buildBlocks, buildMemory, recolorRun } from "../../viewer/store.js";
import { timesBetween } from "../../viewer/times.js";
import { makeSyntheticPage } from "./synthetic.mjs";

/** Returns a function that draws an integer below its bound. Prints its seed; SEED=… repeats it. */
export function makeRandom() {
    let state = Number(process.env.SEED ?? Date.now() % 1000000);
    console.log(`SEED=${state}`);
    return (bound) => {
        state = (Math.imul(state, 1103515245) + 12345) >>> 0;
        return Math.floor((state / 2 ** 32) * bound);
    };
}

/** Returns a synthetic run (synthetic.mjs), made of plain arrays, after `alter(tables, page)`, with its categories as colours. */
export async function makeRun(words, allocations = 3000, alter = () => {}) {
    const page = makeSyntheticPage(allocations, words);
    const { info, tables } = page.runs[0];
    alter(tables, page);
    const typed = Object.fromEntries(
        Object.entries(tables).map(([name, table]) => [
            name,
            Object.fromEntries(Object.entries(table).map(([column, values]) => [column, Float64Array.from(values)])),
        ]),
    );
    // Unless there are others, every event is a knot, so that times are exact.
    typed.knots ??= { event: Float64Array.from(tables.events.time.keys()), time: typed.events.time };
    const table = async (name) => typed[name];
    const { run, events } = await buildBlocks(page, info, table);
    const time = timesBetween(run.knots, run.info);
    Object.assign(run, { time }, await buildMemory(page, info, table, events));
    recolorRun(run, page, "category");
    return { page, tables, run };
}
