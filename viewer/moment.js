/** What a run holds after a moment. */
import { compositionAt } from "./composition.js";
import { visitLive } from "./levels.js";
import { lastAtMost } from "./marks.js";

/** Returns the blocks that are live after a moment, largest first. */
export function liveBlocks(scene, number, moment) {
    const run = scene.runs[number];
    const { category } = run.labels;
    const found = [];
    visitLive(scene.levels(number), run, scene.axis, number, moment, (block) => {
        if (scene.isolated < 0 || category[run.blocks.label[block]] === scene.isolated) found.push(block);
    });
    const bytes = (block) => run.sizes.block[run.blocks.size[block]];
    return found.sort((a, b) => bytes(b) - bytes(a) || a - b);
}

/** Returns the reserved bytes after a moment. */
export function reservedAt(run, moment) {
    const i = lastAtMost(run.reserved.event, moment);
    return i < 0 ? 0 : run.reserved.bytes[i];
}

/** Returns the allocated bytes after a moment. */
export function allocatedAt(scene, number, moment) {
    const bytes = compositionAt(scene.runs[number].memory, moment, new Float64Array(scene.colors.length));
    return bytes.reduce((sum, each) => sum + each, 0);
}
