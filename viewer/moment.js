/** What a run holds after a moment. */
import { compositionAt } from "./composition.js";
import { visitLive } from "./levels.js";
import { lastAtMost } from "./marks.js";

/**
 * Returns the blocks that are live after a moment, in any order.
 * @param {Scene} scene
 * @param {number} number
 * @param {number} moment
 */
export function liveBlocks(scene, number, moment) {
    /** @type {number[]} */
    const found = [];
    visitLive(scene.levels(number), scene.runs[number], scene.axis, number, moment, (block) => found.push(block));
    return found;
}

/**
 * Returns those that pass a mask (filter.js), largest first.
 * @param {Scene} scene
 * @param {number} number
 * @param {number} moment
 * @param {Mask} [mask]
 */
export function shownBlocks(scene, number, moment, mask = scene.mask(number)) {
    const { blocks, sizes } = scene.runs[number];
    /** @param {number} block */
    const bytes = (block) => sizes.block[blocks.size[block]];
    return liveBlocks(scene, number, moment)
        .filter((block) => !mask || mask[blocks.label[block]])
        .sort((a, b) => bytes(b) - bytes(a) || a - b);
}

/**
 * Returns the reserved bytes after a moment.
 * @param {Run} run
 * @param {number} moment
 */
export function reservedAt(run, moment) {
    const i = lastAtMost(run.reserved.event, moment);
    return i < 0 ? 0 : run.reserved.bytes[i];
}

/**
 * Returns the allocated bytes after a moment.
 * @param {Scene} scene
 * @param {number} number
 * @param {number} moment
 */
export function allocatedAt(scene, number, moment) {
    const bytes = compositionAt(scene.runs[number].memory, moment, new Float64Array(scene.colors.length));
    return bytes.reduce((sum, each) => sum + each, 0);
}
