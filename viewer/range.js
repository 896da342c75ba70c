/** A measured range: its length, its peak, what was allocated in it, and what of that was left at its end. */
import { momentAt } from "./axis.js";
import { findHighest } from "./composition.js";
import { lastAtMost } from "./marks.js";
import { allocatedAt } from "./moment.js";
import { changeText, plural, sizeText, timeText } from "./numbers.js";
import { runName } from "./where.js";

/**
 * Returns the blocks that were allocated after one moment and up to another, and the bytes of those that lived on.
 * @param {Run} run
 * @param {number} first
 * @param {number} last
 */
export function allocatedIn({ blocks, sizes }, first, last) {
    const from = lastAtMost(blocks.alloc, first) + 1;
    const end = lastAtMost(blocks.alloc, last) + 1;
    let left = 0;
    for (let block = from; block < end; block++) if (blocks.free[block] > last) left += sizes.block[blocks.size[block]];
    return { count: end - from, left };
}

/**
 * @param {Scene} scene
 * @param {number} number
 * @param {number} x0
 * @param {number} x1
 */
function rangeOfRun(scene, number, x0, x1) {
    const run = scene.runs[number];
    const { axis } = scene;
    const [first, last] = [x0, x1].map((x) => momentAt(axis, number, x));
    const duration = (run.time[Math.max(0, last)] ?? 0) - (run.time[Math.max(0, first)] ?? 0);
    const change = allocatedAt(scene, number, last) - allocatedAt(scene, number, first);
    const { bytes } = findHighest(run.memory, run.peakIndex, first, last);
    const { count, left } = allocatedIn(run, first, last);
    const name = scene.runs.length > 1 ? `${runName(run.info)}: ` : "";
    return (
        `${name}${timeText(axis.kind === "time" ? x1 - x0 : duration)}, ${plural(last - first, "event")}, ` +
        `allocated ${changeText(change)}, at most ${sizeText(bytes)}; ${plural(count, "allocation")}, of which ${sizeText(left)} was left`
    );
}

/**
 * Returns "12.300 ms, 345 events, allocated +1.20 GiB, at most 3.20 GiB; 120 allocations, of which 1.20 GiB was left".
 * @param {Scene} scene
 */
export function measuredText(scene) {
    const { measured } = scene;
    if (!measured) return "";
    const [x0, x1] = [measured.x0, measured.x1].sort((a, b) => a - b);
    return scene.runs.map((_, number) => rangeOfRun(scene, number, x0, x1)).join(" | ");
}
