/**
 * The allocator's memory at a moment: what is free between blocks.
 *
 * @typedef {Object} Holes
 * @property {number} segments   with memory
 * @property {number} reserved   bytes
 * @property {number[]} blocks   live ones, by address
 * @property {{low: number, end: number}[]} parts   of segments that have memory
 * @property {{low: number, bytes: number}[]} holes   free memory in segments, by packed address; pieces of two segments
 *   are two holes
 */
import { liveBlocks } from "./moment.js";

/**
 * Returns the parts of segments that have memory after a moment, by packed address.
 * @param {Run} run
 * @param {number} moment
 */
function partsAt(run, moment) {
    const { count, low, bytes, mapped, life } = run.parts;
    const parts = [];
    for (let i = 0; i < count; i++)
        if (mapped[i] <= moment && (life[i] === 0 || mapped[i] + life[i] > moment))
            parts.push({ low: low[i], end: low[i] + bytes[i] });
    return parts.sort((a, b) => a.low - b.low);
}

/**
 * @param {Run} run
 * @param {number} moment
 */
function segmentsAt(run, moment) {
    const { count, mapped, life } = run.segments;
    let live = 0;
    for (let i = 0; i < count; i++)
        live += Number(mapped[i] <= moment && (life[i] === 0 || mapped[i] + life[i] > moment));
    return live;
}

/**
 * Returns the memory between blocks, which are by address, in parts. Neighbouring parts of one segment are one piece.
 * @param {Run} run
 * @param {{low: number, end: number}[]} parts
 * @param {number[]} blocks
 */
function holesBetween(run, parts, blocks) {
    /** @type {Holes["holes"]} */
    const holes = [];
    const starts = new Set(run.segments.low);
    /**
     * @param {number} low
     * @param {number} end
     */
    const add = (low, end) => {
        if (end <= low) return;
        const last = holes.at(-1);
        if (last && last.low + last.bytes === low && !starts.has(low)) last.bytes += end - low;
        else holes.push({ low, bytes: end - low });
    };
    let next = 0;
    let reached = 0; // the end of what is done
    for (const part of parts) {
        reached = Math.max(reached, part.low);
        for (; next < blocks.length && run.blocks.low[blocks[next]] < part.end; next++) {
            add(reached, run.blocks.low[blocks[next]]);
            reached = run.blocks.low[blocks[next]] + run.sizes.block[run.blocks.size[blocks[next]]];
        }
        add(reached, part.end);
        reached = Math.max(reached, part.end);
    }
    return holes;
}

/**
 * @param {Scene} scene
 * @param {number} number
 * @param {number} moment
 * @returns {Holes} after a moment of a run
 */
export function holesAt(scene, number, moment) {
    const run = scene.runs[number];
    const blocks = liveBlocks(scene, number, moment).sort((a, b) => run.blocks.low[a] - run.blocks.low[b]);
    const parts = partsAt(run, moment);
    return {
        segments: segmentsAt(run, moment),
        reserved: parts.reduce((sum, { low, end }) => sum + end - low, 0),
        blocks,
        parts,
        holes: holesBetween(run, parts, blocks),
    };
}
