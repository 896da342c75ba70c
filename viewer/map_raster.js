/**
 * The address map as a picture of inks. A pixel shows what covers most of it: the blocks of one category together, or
 * else memory that is cached or unmapped. A block comes before memory without one, so a block that lived for a moment is
 * seen at any zoom; a mixture of colours, which would look like another category, is nowhere.
 *
 * Blocks are not filled. In each row of pixels a block adds its cover at its left edge, and takes it away at its right
 * edge; running sums by ink give what covers most of each pixel. So the cost of a block does not depend on its width.
 * Rows between two edges are equal, and are copied. Integers keep the sums exact.
 *
 *   boxes, by first row ──▶ boxes in this row ──▶ edges by pixel ──▶ sums by ink ──▶ inks
 *
 * @typedef {Object} MapPicture   a view of a run that is painted
 * @property {number} width
 * @property {number} height
 * @property {View} view
 * @property {Axis} axis
 * @property {Run} run
 * @property {number} number   of the run
 * @property {Levels} levels
 * @property {(place: GridPlace) => Grid} grid
 * @property {Uint16Array} inks   by label
 * @property {number} inkCount
 */
import { GRID_ROWS, gridPlace, inkOfCell, isGridWorthIt, LEAST_WIDTH, MOST_WEIGHT, weightOfCell } from "./grid.js";
import { GridView } from "./grid_view.js";
import { CACHED, FADED, UNMAPPED } from "./inks.js";
import { CLASS_COUNT, rangeOfClass } from "./levels.js";
import { ONE, RowSums } from "./row_sums.js";

/** The smallest sides, in pixels, of a block that gets an edge of its own. */
const EDGED = 4;
/** The grid is too coarse for views in which its rows are taller than this, in pixels. */
const TALLEST_ROW = 4;

const FIRST_BOXES = 256;

/** The blocks of a view in pixels, cut at its sides. */
class Boxes {
    constructor() {
        this.count = 0;
        this.left = new Float64Array(FIRST_BOXES);
        this.right = new Float64Array(FIRST_BOXES);
        this.top = new Float64Array(FIRST_BOXES);
        this.bottom = new Float64Array(FIRST_BOXES);
        this.ink = new Uint16Array(FIRST_BOXES);
    }

    /** @param {number} room */
    resize(room) {
        for (const side of /** @type {const} */ (["left", "right", "top", "bottom"])) {
            const values = new Float64Array(room);
            values.set(this[side]);
            this[side] = values;
        }
        const inks = new Uint16Array(room);
        inks.set(this.ink);
        this.ink = inks;
    }

    /**
     * @param {number} left
     * @param {number} right
     * @param {number} top
     * @param {number} bottom
     * @param {number} ink
     */
    add(left, right, top, bottom, ink) {
        if (this.count === this.ink.length) this.resize(2 * this.count);
        const at = this.count++;
        this.left[at] = left;
        this.right[at] = right;
        this.top[at] = top;
        this.bottom[at] = bottom;
        this.ink[at] = ink;
    }

    /**
     * Returns the boxes in the order of their first row, and where those of each row begin.
     * @param {number} height
     */
    byRow(height) {
        const starts = new Uint32Array(height + 1);
        for (let i = 0; i < this.count; i++) starts[Math.floor(this.top[i]) + 1]++;
        for (let y = 0; y < height; y++) starts[y + 1] += starts[y];
        const next = starts.slice();
        const order = new Uint32Array(this.count);
        for (let i = 0; i < this.count; i++) order[next[Math.floor(this.top[i])]++] = i;
        return { order, starts };
    }
}

/** The picture of the map. It keeps its memory from one frame to the next. */
export class MapRaster {
    constructor() {
        this.width = 0;
        this.height = 0;
        this.inks = new Uint16Array(0); // by row from the top, then by pixel
        /** @type {?GridPlace} */
        this.place = null; // of the grid that the picture was made with; null: none
    }

    /**
     * Draws the blocks and segments of a view.
     * @param {MapPicture} picture
     * @returns {number[]} the blocks that are large enough for an edge and a text
     */
    draw(picture) {
        const { width, height } = picture;
        if (this.width !== width || this.height !== height) this.inks = new Uint16Array(width * height);
        this.width = width;
        this.height = height;
        const grid = this.chooseGrid(picture);
        const boxes = new Boxes();
        /** @type {number[]} */
        const large = [];
        for (let c = grid ? grid.place.classes : 0; c < CLASS_COUNT; c++) addClass(picture, c, boxes, large);
        const edges = this.paintParts(picture);
        this.paintRows(boxes, grid, edges, picture.inkCount);
        return large;
    }

    /**
     * Returns the grid as this view needs it; null if the view is better off without one.
     * @param {MapPicture} picture
     */
    chooseGrid(picture) {
        const { width, height, view, axis, run, number, levels, grid } = picture;
        const place = gridPlace(view, axis, width);
        const rowPixels = (run.addressBytes / GRID_ROWS / (view.high - view.low)) * height;
        const serves = rowPixels <= TALLEST_ROW && isGridWorthIt(place, levels, run, axis, number, view);
        this.place = serves ? place : null;
        return serves ? new GridView(place, grid(place), picture) : null;
    }

    /**
     * Paints memory of segments. Returns 1 for each row that may differ from the one above by that.
     * @param {MapPicture} picture
     */
    paintParts({ view, axis, run, number }) {
        const { width, height, inks } = this;
        const xs = axis.xs[number];
        const { count, low, bytes, mapped, life } = run.parts;
        const perX = width / (view.x1 - view.x0);
        const perByte = height / (view.high - view.low);
        const edges = new Uint8Array(height + 1);
        inks.fill(UNMAPPED);
        for (let i = 0; i < count; i++) {
            const top = Math.max(0, Math.round((view.high - low[i] - bytes[i]) * perByte));
            const bottom = Math.min(height, Math.round((view.high - low[i]) * perByte));
            const end = life[i] > 0 ? mapped[i] + life[i] : run.eventCount;
            const left = Math.max(0, Math.round((xs[mapped[i]] - view.x0) * perX));
            const right = Math.min(width, Math.round((xs[end] - view.x0) * perX));
            if (bottom <= top || right <= left) continue;
            for (let y = top; y < bottom; y++) inks.fill(CACHED, y * width + left, y * width + right);
            edges[top] = edges[bottom] = 1;
        }
        return edges;
    }

    /**
     * @param {Boxes} boxes
     * @param {?GridView} grid
     * @param {Uint8Array} edges
     * @param {number} inkCount
     */
    paintRows(boxes, grid, edges, inkCount) {
        const { width, height, inks } = this;
        const { order, starts } = boxes.byRow(height);
        const row = new RowSums(width, inkCount);
        /** @type {number[]} */
        let live = []; // the boxes in this row
        let isWhole = false; // each of them covers the row above from edge to edge, and this one has the same
        for (let y = 0; y < height; y++) {
            for (let i = starts[y]; i < starts[y + 1]; i++) live.push(order[i]);
            const isSame = isWhole && !edges[y] && starts[y] === starts[y + 1] && (!grid || grid.isAsAbove(y));
            isWhole = live.every((box) => boxes.top[box] <= y && boxes.bottom[box] >= y + 1);
            if (isSame && isWhole) inks.copyWithin(y * width, (y - 1) * width, y * width);
            else {
                for (const box of live)
                    row.add(boxes.left[box], boxes.right[box], boxes.ink[box], coverOf(boxes, box, y));
                this.paintRow(y * width, row, grid?.takeRow(y) ?? null);
            }
            const rest = live.filter((box) => boxes.bottom[box] > y + 1);
            isWhole &&= rest.length === live.length;
            live = rest;
        }
    }

    /**
     * Paints a row from `begin` on, of the sums and the samples of the grid, or null, over what is there.
     * @param {number} begin
     * @param {RowSums} row
     * @param {?Uint16Array} sampled
     */
    paintRow(begin, row, sampled) {
        const { width, inks } = this;
        let ink = UNMAPPED;
        for (let from = 0; from < width;) {
            if (row.heads[from] >= 0) ink = row.changeAt(from);
            let end = from + 1;
            while (end < width && row.heads[end] < 0) end++;
            if (ink !== UNMAPPED) inks.fill(ink, begin + from, begin + end);
            if (sampled) layOver(inks, begin, from, end, ink, row.sums, sampled);
            from = end;
        }
        row.end(width);
    }
}

/**
 * Returns how much of a row of pixels a box covers.
 * @param {Boxes} boxes
 * @param {number} box
 * @param {number} y
 */
function coverOf(boxes, box, y) {
    const high = Math.min(y + 1, boxes.bottom[box]) - Math.max(y, boxes.top[box]);
    return Math.max(1, (high * ONE) | 0);
}

/**
 * Paints the cells of the grid over pixels that have the same sums and show `ink`, where they cover more.
 * @param {Uint16Array} inks
 * @param {number} begin
 * @param {number} from
 * @param {number} end
 * @param {number} ink
 * @param {Int32Array} sums
 * @param {Uint16Array} cells
 */
function layOver(inks, begin, from, end, ink, sums, cells) {
    const isFree = ink === UNMAPPED || ink === FADED;
    for (let x = from; x < end; x++) {
        const cell = cells[x];
        if (cell === 0) continue;
        const own = inkOfCell(cell);
        if (own === FADED) {
            if (ink === UNMAPPED) inks[begin + x] = own;
        } else if (isFree || sums[own] + weightOfCell(cell) * (ONE / MOST_WEIGHT) > sums[ink]) inks[begin + x] = own;
    }
}

/**
 * Adds the blocks of a class, and appends to `large` those with edges of their own.
 * @param {MapPicture} picture
 * @param {number} c
 * @param {Boxes} boxes
 * @param {number[]} large
 */
function addClass(picture, c, boxes, large) {
    const { width, height, view, axis, run, number, levels, inks } = picture;
    const { alloc, free, low, size, label } = run.blocks;
    const bytes = run.sizes.block;
    const xs = axis.xs[number];
    const perX = width / (view.x1 - view.x0);
    const perByte = height / (view.high - view.low);
    const [first, end] = rangeOfClass(levels, run, axis, number, c, view.x0, view.x1);
    for (let i = first; i < end; i++) {
        const block = levels.order[i];
        const bottom = (view.high - low[block]) * perByte;
        const top = bottom - bytes[size[block]] * perByte;
        if (bottom <= 0 || top >= height) continue;
        const left = (xs[alloc[block]] - view.x0) * perX;
        const right = Math.max(left + LEAST_WIDTH, (xs[free[block]] - view.x0) * perX);
        if (right <= 0 || left >= width) continue;
        boxes.add(
            Math.max(0, left),
            Math.min(width, right),
            Math.max(0, top),
            Math.min(height, bottom),
            inks[label[block]],
        );
        if (bottom - top >= EDGED && right - left >= EDGED) large.push(block);
    }
}
