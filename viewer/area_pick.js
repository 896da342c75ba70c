/** The block that a point of the stacked area stands for. */
import { shownBlocks } from "./moment.js";

/** Pixels around the pointer in which a spike is found: it may be one pixel wide. */
const SPIKE_REACH = 3;

/**
 * Returns the column that a point is over: that of the pointer, or a near one that reaches up to the point; -1: none does.
 * @param {AreaColumns} columns
 * @param {number} part   of the width of the chart
 * @param {number} bytes   above the lower edge
 * @param {number} scale   columns for each pixel
 */
export function columnUnder({ bytes: heights }, part, bytes, scale) {
    const middle = Math.floor(Math.min(0.999999, Math.max(0, part)) * heights.length);
    for (let by = 0; by <= SPIKE_REACH * scale; by++)
        for (const column of [middle + by, middle - by]) if (heights[column] >= bytes) return column;
    return -1;
}

/**
 * Returns the colour of the stack at a height of a column, and the height above its lower edge; null: none.
 * @param {AreaColumns} columns
 * @param {number[]} stack
 * @param {number} column
 * @param {number} bytes
 */
function bandUnder({ compositions }, stack, column, bytes) {
    let below = 0;
    for (const color of stack) {
        const high = compositions[column * stack.length + color];
        if (bytes <= below + high && high > 0) return { color, above: bytes - below };
        below += high;
    }
    return null;
}

/**
 * Returns the block at a height of a column: within a colour, blocks that live longest are lowest, so the spike is on top.
 * -1: none.
 * @param {Scene} scene
 * @param {number} number
 * @param {AreaColumns} columns
 * @param {number} column
 * @param {number} bytes
 */
export function blockUnder(scene, number, columns, column, bytes) {
    const band = bandUnder(columns, scene.stack, column, bytes);
    if (!band) return -1;
    const { blocks, labels, sizes } = scene.runs[number];
    /** @param {number} block */
    const life = (block) => blocks.free[block] - blocks.alloc[block];
    let below = 0;
    for (const block of shownBlocks(scene, number, columns.moments[column])
        .filter((each) => labels.color[blocks.label[each]] === band.color)
        .sort((a, b) => life(b) - life(a) || a - b)) {
        below += sizes.block[blocks.size[block]];
        if (below >= band.above) return block;
    }
    return -1;
}
