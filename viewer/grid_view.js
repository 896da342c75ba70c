/** A grid (grid.js) in a view: what each pixel of a row shows of it. */
import { cellOf, GRID_COLUMNS, GRID_ROWS, inkOfCell, MOST_WEIGHT, weightOf, weightOfCell } from "./grid.js";

/**
 * Returns the row of the grid for each row of pixels.
 * @param {View} view
 * @param {Run} run
 * @param {number} height
 */
function gridRows(view, run, height) {
    const perPixel = ((view.high - view.low) / run.addressBytes / height) * GRID_ROWS;
    const top = (view.high / run.addressBytes) * GRID_ROWS;
    return Uint16Array.from({ length: height }, (_, y) =>
        Math.min(GRID_ROWS - 1, Math.max(0, top - (y + 0.5) * perPixel)),
    );
}

/**
 * Returns the cells of a row of the grid for each pixel: from [2 * x] to [2 * x + 1], inclusive.
 * @param {GridPlace} place
 * @param {View} view
 * @param {number} width
 */
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

/**
 * Returns a cell with the ink that covers most of cells `first` to `last`. `covers` has a 0 for each ink, as after it.
 * @param {Uint16Array} cells
 * @param {number} first
 * @param {number} last
 * @param {Int32Array} covers
 */
function mostOfCells(cells, first, last, covers) {
    let ink = 0;
    let most = -1;
    for (let at = first; at <= last; at++) {
        const cell = cells[at];
        if (cell === 0) continue;
        const own = inkOfCell(cell);
        const cover = (covers[own] += weightOfCell(cell));
        if (cover <= most) continue;
        ink = own;
        most = cover;
    }
    if (most < 0) return 0;
    for (let at = first; at <= last; at++) covers[inkOfCell(cells[at])] = 0;
    return cellOf(ink, weightOf(ink, most / (last + 1 - first) / MOST_WEIGHT));
}

/**
 * Returns the same of two cells, which is the usual number.
 * @param {number} p
 * @param {number} q
 */
function mostOfTwo(p, q) {
    if (p === q) return p;
    if (p === 0 || q === 0) return p === 0 ? halfOf(q) : halfOf(p);
    const own = weightOfCell(p);
    const other = weightOfCell(q);
    if (inkOfCell(p) === inkOfCell(q)) return cellOf(inkOfCell(p), (own + other + 1) >> 1);
    return own >= other ? halfOf(p) : halfOf(q);
}

/** @param {number} cell */
function halfOf(cell) {
    return cellOf(inkOfCell(cell), (weightOfCell(cell) + 1) >> 1);
}

/**
 * Sets `out` to the cell of each pixel in a row: what covers most of the cells that the pixel touches.
 * @param {Uint16Array} cells
 * @param {Int32Array} columns   of gridColumns
 * @param {number} row
 * @param {Uint16Array} out
 * @param {Int32Array} covers   one for each ink, all 0
 */
export function sampleGrid(cells, columns, row, out, covers) {
    const base = row * GRID_COLUMNS;
    for (let x = 0; x < out.length; x++) {
        const first = base + columns[2 * x];
        const last = base + columns[2 * x + 1];
        out[x] = last - first < 2 ? mostOfTwo(cells[first], cells[last]) : mostOfCells(cells, first, last, covers);
    }
}

/** A grid in a view. */
export class GridView {
    /**
     * @param {GridPlace} place
     * @param {Grid} grid
     * @param {MapPicture} picture
     */
    constructor(place, { cells, filled }, { width, height, view, run, inkCount }) {
        this.place = place;
        this.cells = cells;
        this.filled = filled;
        this.rows = gridRows(view, run, height);
        this.columns = gridColumns(place, view, width);
        this.sampled = -1; // the row of the grid of which these are samples
        this.samples = new Uint16Array(width);
        this.covers = new Int32Array(inkCount);
    }

    /**
     * True if a row of pixels has the cells of the row above it.
     * @param {number} y
     */
    isAsAbove(y) {
        return this.rows[y] === this.rows[y - 1];
    }

    /**
     * Returns the cells of a row of pixels; null if there are none.
     * @param {number} y
     */
    takeRow(y) {
        const row = this.rows[y];
        if (this.filled[row] === 0) return null;
        // In an enlarged view, several rows of pixels have the same row of the grid.
        if (row !== this.sampled) sampleGrid(this.cells, this.columns, row, this.samples, this.covers);
        this.sampled = row;
        return this.samples;
    }
}
