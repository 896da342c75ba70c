/**
 * The extent of what is selected, to zoom to it or to measure it: a block, else a bar, else a measured range.
 *
 * @typedef {{x0: number, x1: number, low?: number, high?: number}} Extent   addresses: of a block
 */
import { selectedBar } from "./bars.js";
import { withAddresses, withRange } from "./view.js";

/** The part of the extent that is left free around it. */
const FOCUS_MARGIN = 0.25;

/**
 * Returns the extent of what is selected; null if nothing is.
 * @param {Scene} scene
 * @returns {?Extent}
 */
export function selectedExtent(scene) {
    const { selected, measured, mapRun } = scene;
    if (selected >= 0) {
        const { blocks, sizes } = scene.runs[mapRun];
        const xs = scene.axis.xs[mapRun];
        const low = blocks.low[selected];
        const high = low + sizes.block[blocks.size[selected]];
        return { x0: xs[blocks.alloc[selected]], x1: xs[blocks.free[selected]], low, high };
    }
    const bar = selectedBar(scene);
    if (bar) return { x0: bar.x0, x1: bar.x1 };
    return measured && { x0: Math.min(measured.x0, measured.x1), x1: Math.max(measured.x0, measured.x1) };
}

/**
 * Returns a range with the margin around it.
 * @param {number} from
 * @param {number} to
 */
function withMargin(from, to) {
    const by = (to - from) * FOCUS_MARGIN;
    return /** @type {const} */ ([from - by, to + by]);
}

/**
 * Zooms to what is selected; of a block also among addresses.
 * @param {Scene} scene
 */
export function focusSelection(scene) {
    const extent = selectedExtent(scene);
    if (!extent) return;
    const view = withRange(scene.view, scene.axis, ...withMargin(extent.x0, extent.x1));
    if (extent.low === undefined || extent.high === undefined) return scene.set({ view });
    const { addressBytes } = scene.runs[scene.mapRun];
    scene.set({ view: withAddresses(view, addressBytes, ...withMargin(extent.low, extent.high)) });
}

/**
 * Measures the lifetime of the selected block, or the length of the selected bar.
 * @param {Scene} scene
 */
export function markSelection(scene) {
    const extent = selectedExtent(scene);
    if (extent) scene.set({ measured: { x0: extent.x0, x1: extent.x1 } });
}
