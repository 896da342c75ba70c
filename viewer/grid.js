/**
 * The short-lived blocks of a part of the axis as a picture, made once and shown as long as the view is inside of it: a
 * hundred thousand blocks that are a few pixels wide would otherwise be added up again in every frame.
 *
 * A column is 2^-k of the axis long, and about as wide as a pixel; so while one zooms, the grid is made anew when the
 * view is half as wide, and otherwise serves.
 *
 * @typedef {Object} GridPlace
 * @property {number} unit   how much of the axis a column is
 * @property {number} x0, x1   what of the axis the grid covers
 * @property {number} classes   classes of blocks (levels.js) that are in it: those before this one
 */
import { CLASS_COUNT, rangeOfClass } from "./levels.js";

export const GRID_COLUMNS = 4096;
export const GRID_ROWS = 320;
/** Blocks up to so many columns long are in the grid; longer ones are drawn with sharp edges. */
const LONGEST = 32;
/** With fewer blocks than this in sight, drawing each is as fast. */
const WORTH_IT = 25000;

/** The grid that a view of `width` pixels needs. */
export function gridPlace(view, axis, width) {
    const span = view.x1 - view.x0;
    const finest = axis.length / GRID_COLUMNS;
    const wanted = Math.max((span / width) * 1.34, span / (0.75 * GRID_COLUMNS));
    const level = Math.max(0, Math.ceil(Math.log2(finest / wanted)));
    const unit = finest / 2 ** level;
    // Begins at a quarter of its length, so that whatever is up to three quarters long lies inside of it.
    const quarter = unit * (GRID_COLUMNS / 4);
    const x0 = level === 0 ? 0 : Math.floor(view.x0 / quarter) * quarter;
    const longest = axis.length / 2 ** (CLASS_COUNT - 1);
    const classes = Math.max(0, Math.min(CLASS_COUNT, 1 + Math.floor(Math.log2((unit * LONGEST) / longest) + 1e-9)));
    return { unit, x0, x1: x0 + unit * GRID_COLUMNS, classes };
}

/** Whether there are so many blocks in sight that the grid is worth it. */
export function isGridWorthIt(place, levels, run, axis, number, view) {
    let blocks = 0;
    for (let c = 0; c < place.classes; c++) {
        const [first, end] = rangeOfClass(levels, run, axis, number, c, view.x0, view.x1);
        blocks += end - first;
    }
    return blocks > WORTH_IT;
}

/**
 * Cells by row from below, then column, as words: red, green and blue premultiplied, and coverage, each up to 255. As
 * blocks do not overlap, coverage adds up. A frame reads most of the grid, so it is kept as small as what is shown of it.
 * @param {Float32Array} paint   [4 * label]: red, green, blue and opacity of a label's blocks
 * @returns {Uint32Array}
 */
export function makeGrid(place, levels, run, axis, number, paint) {
    const { alloc, free, low, size, label } = run.blocks;
    const { block: bytes } = run.sizes;
    const xs = axis.xs[number];
    const sums = new Float32Array(GRID_COLUMNS * GRID_ROWS * 4);
    const perRow = GRID_ROWS / run.addressBytes;
    for (let c = 0; c < place.classes; c++) {
        const [first, end] = rangeOfClass(levels, run, axis, number, c, place.x0, place.x1);
        for (let i = first; i < end; i++) {
            const block = levels.order[i];
            const left = Math.max(0, (xs[alloc[block]] - place.x0) / place.unit);
            const right = Math.min(GRID_COLUMNS, (xs[free[block]] - place.x0) / place.unit);
            const bottom = low[block] * perRow;
            const top = bottom + bytes[size[block]] * perRow;
            addToSums(sums, left, right, bottom, top, paint, label[block] * 4);
        }
    }
    return new Uint32Array(Uint8ClampedArray.from(sums).buffer);
}

function addToSums(sums, left, right, bottom, top, paint, from) {
    const r = paint[from],
        g = paint[from + 1],
        b = paint[from + 2],
        a = paint[from + 3] * 255;
    const lastRow = Math.min(GRID_ROWS - 1, Math.floor(top));
    for (let row = Math.floor(bottom); row <= lastRow; row++) {
        const covered = Math.min(top, row + 1) - Math.max(bottom, row);
        let column = Math.floor(left);
        for (let at = (row * GRID_COLUMNS + column) * 4; column < right; column++, at += 4) {
            const part = covered * ((right < column + 1 ? right : column + 1) - (left > column ? left : column));
            sums[at] += r * part;
            sums[at + 1] += g * part;
            sums[at + 2] += b * part;
            sums[at + 3] += a * part;
        }
    }
}

/** The grid's row for each row of pixels. */
export function gridRows(view, run, height) {
    const perPixel = ((view.high - view.low) / run.addressBytes / height) * GRID_ROWS;
    const top = (view.high / run.addressBytes) * GRID_ROWS;
    return Uint16Array.from({ length: height }, (_, y) =>
        Math.min(GRID_ROWS - 1, Math.max(0, top - (y + 0.5) * perPixel)),
    );
}

/** Which cells of a row of the grid belong to each pixel: from [2 * x] to [2 * x + 1], both of them included. */
export function gridColumns(place, view, width) {
    const perPixel = (view.x1 - view.x0) / width / place.unit;
    const begin = (view.x0 - place.x0) / place.unit;
    const columns = new Int32Array(width * 2);
    for (let x = 0; x < width; x++) {
        const first = Math.min(GRID_COLUMNS - 1, Math.floor(begin + x * perPixel));
        columns[2 * x] = first;
        columns[2 * x + 1] = Math.min(GRID_COLUMNS, Math.max(first + 1, Math.ceil(begin + (x + 1) * perPixel))) - 1;
    }
    return columns;
}

/** Which rows of the grid hold anything. */
function filledRows(cells) {
    return Uint8Array.from({ length: GRID_ROWS }, (_, row) =>
        Number(cells.subarray(row * GRID_COLUMNS, (row + 1) * GRID_COLUMNS).some((cell) => cell !== 0)),
    );
}

/** Makes what is asked for once for a grid. */
const filledOf = new WeakMap();
export function isRowFilled(cells, row) {
    if (!filledOf.has(cells)) filledOf.set(cells, filledRows(cells));
    return filledOf.get(cells)[row] === 1;
}

/** The mean of the grid's cells in each pixel of a row: [4 * x], in units of `one`; coverage up to `one`. */
export function sampleGrid(cells, columns, row, one, out) {
    const base = row * GRID_COLUMNS;
    for (let at = 0, x = 0; at < out.length; at += 4, x += 2) {
        const first = base + columns[x];
        const last = base + columns[x + 1];
        // Mostly there are one or two; one, added to itself, has the same mean.
        const p = cells[first],
            q = cells[last];
        let r = (p & 255) + (q & 255),
            g = ((p >>> 8) & 255) + ((q >>> 8) & 255),
            b = ((p >>> 16) & 255) + ((q >>> 16) & 255),
            a = (p >>> 24) + (q >>> 24);
        let share = one / 2;
        if (last - first > 1) {
            share = one / (last + 1 - first);
            for (let from = first + 1; from < last; from++) {
                const cell = cells[from];
                r += cell & 255;
                g += (cell >>> 8) & 255;
                b += (cell >>> 16) & 255;
                a += cell >>> 24;
            }
        }
        out[at] = r * share;
        out[at + 1] = g * share;
        out[at + 2] = b * share;
        out[at + 3] = (a * share) / 255;
    }
}
