/**
 * The place of the tip: next to the pointer, and neither over it nor over the curve of an area.
 *
 * @typedef {Object} Curve   the upper edge of an area
 * @property {number} bottom   where its heights begin, in pixels from the top of the charts
 * @property {Float64Array} heights   of each column, in pixels; 0: nothing is there
 * @property {number} pitch   pixels of a column
 *
 * @typedef {{left: number, top: number, width: number, height: number}} Box
 */
import { LEFT } from "./plot.js";

const BESIDE = 14; // pixels between the pointer and the tip
const CLEAR = 4; // pixels between a curve and the tip

/**
 * Returns the highest and lowest point of a curve between two x; null if it has none there.
 * @param {Curve} curve
 * @param {number} left
 * @param {number} right
 */
function extentOf({ bottom, heights, pitch }, left, right) {
    const first = Math.max(0, Math.floor((left - LEFT) / pitch));
    const part = heights.subarray(first, Math.max(first, Math.ceil((right - LEFT) / pitch))).filter((each) => each > 0);
    if (part.length === 0) return null;
    const [most, least] = part.reduce(
        ([high, low], each) => [Math.max(high, each), Math.min(low, each)],
        [0, Infinity],
    );
    return { top: bottom - most, bottom: bottom - least };
}

/**
 * Returns by how many pixels of height a box reaches over curves.
 * @param {Box} box
 * @param {Curve[]} curves
 */
export function overCurves({ left, top, width, height }, curves) {
    return curves.reduce((sum, curve) => {
        const extent = extentOf(curve, left, left + width);
        if (!extent) return sum;
        return sum + Math.max(0, Math.min(top + height, extent.bottom) - Math.max(top, extent.top) + 1);
    }, 0);
}

/**
 * Returns where a tip may begin: beside the pointer, above and below it, and clear of the curves there.
 * @param {{width: number, height: number}} tip
 * @param {{left: number, top: number}} pointer
 * @param {{width: number, height: number}} charts
 * @param {Curve[]} curves
 */
function candidates({ width, height }, pointer, charts, curves) {
    const sides = [pointer.left + BESIDE, pointer.left - BESIDE - width, pointer.left - width / 2];
    return sides.flatMap((side) => {
        const left = Math.max(0, Math.min(charts.width - width, side));
        const extents = curves.map((curve) => extentOf(curve, left, left + width)).filter((each) => each !== null);
        const tops = [
            pointer.top + BESIDE,
            pointer.top - BESIDE - height,
            ...extents.flatMap(({ top, bottom }) => [top - CLEAR - height, bottom + CLEAR]),
        ];
        return tops.map((top) => ({ left, top: Math.max(0, Math.min(charts.height - height, top)), width, height }));
    });
}

/**
 * Returns the distance of a point from a box; 0 inside of it.
 * @param {Box} box
 * @param {{left: number, top: number}} point
 */
function distanceOf({ left, top, width, height }, point) {
    const x = Math.max(left - point.left, 0, point.left - left - width);
    return Math.hypot(x, Math.max(top - point.top, 0, point.top - top - height));
}

/**
 * Returns the place of a tip that is nearest to the pointer among those over no curve; without one, the place least over them.
 * @param {{width: number, height: number}} tip
 * @param {{left: number, top: number}} pointer   on the charts
 * @param {{width: number, height: number}} charts
 * @param {Curve[]} curves
 * @returns {Box}
 */
export function placeTip(tip, pointer, charts, curves) {
    const places = candidates(tip, pointer, charts, curves)
        .map((box) => ({ box, over: overCurves(box, curves), distance: distanceOf(box, pointer) }))
        .filter(({ distance }) => distance > 0);
    places.sort((a, b) => a.over - b.over || a.distance - b.distance);
    return places[0]?.box ?? { left: 0, top: 0, ...tip };
}
