/**
 * The strokes on the map: an edge above and to the left of large blocks, hatching, and the outlines of segments. A stroke
 * lies only on what it belongs to, and is near to its colour, so that it names no other category.
 */
import { isHatchLine } from "./colors.js";
import { FADED, FIRST_INK, wordOf } from "./inks.js";

/** The lowest segment, in pixels, that gets an outline. */
const OUTLINED = 5;

/**
 * Returns the pixels of a block that lie in the picture, whole ones only.
 * @param {MapPicture} picture
 * @param {number} block
 */
function insideOfBlock({ width, height, view, axis, run, number }, block) {
    const { alloc, free, low } = run.blocks;
    const xs = axis.xs[number];
    const perX = width / (view.x1 - view.x0);
    const perByte = height / (view.high - view.low);
    const bottom = (view.high - low[block]) * perByte;
    return {
        left: Math.max(0, Math.ceil((xs[alloc[block]] - view.x0) * perX)),
        right: Math.min(width, Math.floor((xs[free[block]] - view.x0) * perX)),
        top: Math.max(0, Math.ceil(bottom - run.sizes.block[run.blocks.size[block]] * perByte)),
        bottom: Math.min(height, Math.floor(bottom)),
    };
}

/**
 * Draws the strokes of blocks into the pixels of a picture, where the picture shows the block's category.
 * @param {MapPicture} picture   as of MapRaster.draw
 * @param {CategoryColor[]} colors
 * @param {Uint16Array} shown   the picture's inks
 * @param {Uint32Array} pixels
 * @param {number[]} blocks
 */
export function strokeBlocks(picture, colors, shown, pixels, blocks) {
    const { width, run, inks } = picture;
    for (const block of blocks) {
        const ink = inks[run.blocks.label[block]];
        if (ink < FIRST_INK) continue;
        const { line, hatch } = colors[ink - FIRST_INK];
        const word = wordOf(line);
        const { left, right, top, bottom } = insideOfBlock(picture, block);
        /**
         * @param {number} x
         * @param {number} y
         */
        const put = (x, y) => {
            if (shown[y * width + x] === ink) pixels[y * width + x] = word;
        };
        if (hatch)
            for (let y = top; y < bottom; y++)
                for (let x = left; x < right; x++) if (isHatchLine(hatch, x, y)) put(x, y);
        if (left > 0) for (let y = top; y < bottom; y++) put(left, y);
        if (top > 0) for (let x = left; x < right; x++) put(x, top);
    }
}

/**
 * Outlines segments, where the picture shows memory without a block.
 * @param {MapPicture} picture
 * @param {Rgb} color
 * @param {Uint16Array} shown
 * @param {Uint32Array} pixels
 */
export function strokeSegments({ width, height, view, axis, run, number }, color, shown, pixels) {
    const xs = axis.xs[number];
    const { count, low, bytes, mapped, life } = run.segments;
    const perX = width / (view.x1 - view.x0);
    const perByte = height / (view.high - view.low);
    const word = wordOf(color);
    /**
     * @param {number} x
     * @param {number} y
     */
    const put = (x, y) => {
        if (x < 0 || x >= width || y < 0 || y >= height || shown[y * width + x] >= FADED) return;
        pixels[y * width + x] = word;
    };
    for (let i = 0; i < count; i++) {
        const top = Math.round((view.high - low[i] - bytes[i]) * perByte);
        const bottom = Math.round((view.high - low[i]) * perByte);
        if (bottom - top < OUTLINED || bottom < 0 || top > height) continue;
        const end = life[i] > 0 ? mapped[i] + life[i] : run.eventCount;
        const left = Math.max(-1, Math.round((xs[mapped[i]] - view.x0) * perX));
        const right = Math.min(width, Math.round((xs[end] - view.x0) * perX));
        for (let x = left; x < right; x++) {
            put(x, top);
            put(x, bottom);
        }
        for (let y = Math.max(0, top); y < Math.min(height, bottom); y++) {
            put(left, y);
            put(right, y);
        }
    }
}
