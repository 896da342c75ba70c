/**
 * Blocks by how long they live, so that any view finds what it shows, and a wide one does not look at what is too short
 * to be seen one by one.
 *
 * Class 0 holds what lives less than a GRID_COLUMNS-th of the axis, class k what lives up to 2^k times that. Within a
 * class blocks are in the order of their allocation, so those that can reach into [x0, x1] are a range: allocated between
 * x0 less the longest life of the class, and x1. Class 0 is summed up in a grid of colours besides, which stands for its
 * blocks where a pixel is wider than a column.
 *
 * @typedef {Object} Levels
 * @property {Uint32Array} order   blocks by class, then allocation
 * @property {Uint32Array} starts   of each class in order, and the end
 * @property {Float64Array} longest   life in each class
 */
import { momentBefore } from "./axis.js";

export const GRID_COLUMNS = 2048;
export const GRID_ROWS = 256;
const CLASSES = Math.log2(GRID_COLUMNS) + 2;

function classOf(life, unit) {
    return life < unit ? 0 : Math.min(CLASSES - 1, 1 + Math.floor(Math.log2(life / unit)));
}

/** @returns {Levels} */
export function makeLevels(run, axis, number) {
    const { count, alloc, free } = run.blocks;
    const xs = axis.xs[number];
    const unit = axis.length / GRID_COLUMNS;
    const classes = new Uint8Array(count);
    const starts = new Uint32Array(CLASSES + 1);
    for (let i = 0; i < count; i++) {
        classes[i] = classOf(xs[free[i]] - xs[alloc[i]], unit);
        starts[classes[i] + 1]++;
    }
    for (let c = 0; c < CLASSES; c++) starts[c + 1] += starts[c];
    const order = new Uint32Array(count);
    const next = starts.slice();
    for (let i = 0; i < count; i++) order[next[classes[i]]++] = i;
    const longest = Float64Array.from({ length: CLASSES }, (_, c) => (c === CLASSES - 1 ? axis.length : unit * 2 ** c));
    return { order, starts, longest, unit };
}

/** The first position in [low, high) of the order whose block was allocated after `event`. */
function firstAfter(levels, alloc, event, low, high) {
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (alloc[levels.order[middle]] <= event) low = middle + 1;
        else high = middle;
    }
    return low;
}

/** The positions in the order, of one class, whose blocks may reach into [x0, x1]: [first, end). */
export function rangeOfClass(levels, run, axis, number, c, x0, x1) {
    const { alloc } = run.blocks;
    const before = momentBefore(axis, number, x0 - levels.longest[c]);
    const last = momentBefore(axis, number, x1 + axis.length * 1e-12);
    const first = firstAfter(levels, alloc, before, levels.starts[c], levels.starts[c + 1]);
    return [first, firstAfter(levels, alloc, last, first, levels.starts[c + 1])];
}

export const CLASS_COUNT = CLASSES;

/** Calls visit(block) for each block that is live after the moment, in no order that matters. */
export function visitLive(levels, run, axis, number, moment, visit) {
    if (moment < 0) return;
    const { alloc, free } = run.blocks;
    const x = axis.xs[number][moment];
    for (let c = 0; c < CLASSES; c++) {
        const [first, end] = rangeOfClass(levels, run, axis, number, c, x, x);
        for (let i = first; i < end; i++) {
            const block = levels.order[i];
            if (alloc[block] <= moment && free[block] > moment) visit(block);
        }
    }
}

/**
 * Class 0 as a picture: premultiplied red, green and blue up to 255, and coverage up to 1, by column, then row from below. As
 * blocks do not overlap, coverage adds up.
 * @param {Float32Array} paint   [4 * label]: red, green, blue and opacity of a label's blocks
 */
export function makeGrid(levels, run, axis, number, paint) {
    const { alloc, free, low, size, label } = run.blocks;
    const { block: bytes } = run.sizes;
    const xs = axis.xs[number];
    const cells = new Float32Array(GRID_COLUMNS * GRID_ROWS * 4);
    const perRow = GRID_ROWS / run.addressBytes;
    for (let i = levels.starts[0]; i < levels.starts[1]; i++) {
        const block = levels.order[i];
        const left = xs[alloc[block]] / levels.unit;
        const right = xs[free[block]] / levels.unit;
        const column = Math.min(GRID_COLUMNS - 1, Math.floor(left));
        const inFirst = Math.min(right, column + 1) - left;
        const bottom = low[block] * perRow;
        const top = bottom + bytes[size[block]] * perRow;
        const from = label[block] * 4;
        addToColumn(cells, column, bottom, top, inFirst, paint, from);
        if (right > column + 1 && column + 1 < GRID_COLUMNS)
            addToColumn(cells, column + 1, bottom, top, right - column - 1, paint, from);
    }
    return cells;
}

function addToColumn(cells, column, bottom, top, width, paint, from) {
    const r = paint[from] * width, g = paint[from + 1] * width, b = paint[from + 2] * width, a = paint[from + 3] * width;
    const lastRow = Math.min(GRID_ROWS - 1, Math.floor(top));
    for (let row = Math.floor(bottom); row <= lastRow; row++) {
        const covered = Math.min(top, row + 1) - Math.max(bottom, row);
        const at = (column * GRID_ROWS + row) * 4;
        cells[at] += r * covered;
        cells[at + 1] += g * covered;
        cells[at + 2] += b * covered;
        cells[at + 3] += a * covered;
    }
}
