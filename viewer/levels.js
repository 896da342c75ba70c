/**
 * Blocks by lifetime, so that the blocks in any view are found fast.
 *
 * Class c holds the blocks that live between 2^(c-21) and 2^(c-20) of the axis' length; class 0 holds all shorter ones.
 * Within a class, blocks are in the order of allocation. So those that may reach into [x0, x1] are a range: they were
 * allocated between x0 minus the longest lifetime of the class, and x1.
 *
 * @typedef {Object} Levels
 * @property {Uint8Array} classes   by block
 * @property {Uint32Array} order   blocks by class, then allocation
 * @property {Uint32Array} starts   of each class in `order`, and the end
 * @property {Float64Array} longest   lifetime in each class
 */
import { momentBefore } from "./axis.js";

export const CLASS_COUNT = 21;

const LONGEST_FROM = 2 ** (CLASS_COUNT - 2);

/** @param {number} ratio   of a lifetime to the limit of class 0; each class begins at a power of two */
function classOf(ratio) {
    return ratio < LONGEST_FROM ? 32 - Math.clz32(ratio | 0) : CLASS_COUNT - 1;
}

/**
 * Returns the limit of class 0: its blocks live for less.
 * @param {Axis} axis
 */
export function shortestOf(axis) {
    return axis.length / 2 ** (CLASS_COUNT - 1);
}

/**
 * @param {Run} run
 * @param {Axis} axis
 * @param {number} number
 * @returns {Levels}
 */
export function makeLevels(run, axis, number) {
    const { count, alloc, free } = run.blocks;
    const xs = axis.xs[number];
    const perShortest = 1 / shortestOf(axis);
    const classes = new Uint8Array(count);
    const starts = new Uint32Array(CLASS_COUNT + 1);
    for (let i = 0; i < count; i++) {
        const c = classOf((xs[free[i]] - xs[alloc[i]]) * perShortest);
        classes[i] = c;
        starts[c + 1]++;
    }
    for (let c = 0; c < CLASS_COUNT; c++) starts[c + 1] += starts[c];
    const order = new Uint32Array(count);
    const next = starts.slice();
    for (let i = 0; i < count; i++) order[next[classes[i]]++] = i;
    const longest = Float64Array.from({ length: CLASS_COUNT }, (_, c) => shortestOf(axis) * 2 ** c * (1 + 1e-12));
    return { order, classes, starts, longest };
}

/**
 * Returns the first position in [low, high) of `order` with a block that was allocated after `event`.
 * @param {Levels} levels
 * @param {NumberArray} alloc
 * @param {number} event
 * @param {number} low
 * @param {number} high
 */
function firstAfter(levels, alloc, event, low, high) {
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (alloc[levels.order[middle]] <= event) low = middle + 1;
        else high = middle;
    }
    return low;
}

/**
 * Returns the positions in `order` of the blocks of a class that may reach into [x0, x1]: [first, end).
 * @param {Levels} levels
 * @param {Run} run
 * @param {Axis} axis
 * @param {number} number
 * @param {number} c
 * @param {number} x0
 * @param {number} x1
 */
export function rangeOfClass(levels, run, axis, number, c, x0, x1) {
    const { alloc } = run.blocks;
    const before = momentBefore(axis, number, x0 - levels.longest[c]);
    const last = momentBefore(axis, number, x1 + axis.length * 1e-12);
    const first = firstAfter(levels, alloc, before, levels.starts[c], levels.starts[c + 1]);
    return [first, firstAfter(levels, alloc, last, first, levels.starts[c + 1])];
}

/**
 * Calls visit(block) for each block that is live after the moment, in any order.
 * @param {Levels} levels
 * @param {Run} run
 * @param {Axis} axis
 * @param {number} number
 * @param {number} moment
 * @param {(block: number) => void} visit
 */
export function visitLive(levels, run, axis, number, moment, visit) {
    if (moment < 0) return;
    const { alloc, free } = run.blocks;
    const x = axis.xs[number][moment];
    for (let c = 0; c < CLASS_COUNT; c++) {
        const [first, end] = rangeOfClass(levels, run, axis, number, c, x, x);
        for (let i = first; i < end; i++) {
            const block = levels.order[i];
            if (alloc[block] <= moment && free[block] > moment) visit(block);
        }
    }
}
