/** The ghost of the request that ended a run: a dashed box as high as its bytes, on top of what was reserved then. */
import { reservedAt } from "./moment.js";
import { sizeText } from "./numbers.js";
import { drawLabel, LEFT } from "./plot.js";

const GHOST_WIDTH = 44; // pixels

/**
 * Returns the left edge of the ghost in an area, in pixels from the left margin; null: nothing was refused in view.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} number
 */
export function ghostLeft(plot, { refusals, axis, view }, number) {
    const refusal = refusals[number];
    if (!refusal) return null;
    const x = ((axis.xs[number][refusal.event] - view.x0) / (view.x1 - view.x0)) * plot.width;
    return x < 0 || x > plot.width ? null : Math.min(x, plot.width - GHOST_WIDTH);
}

/**
 * Returns a function from bytes to the height of a pixel in an area.
 * @param {Scene} scene
 * @param {number} top
 * @param {number} height
 */
const heightOf = (scene, top, height) => (/** @type {number} */ bytes) =>
    top + height - (bytes / scene.areaTop) * height;

/**
 * Returns the text above the ghost and its place; null without a ghost. Leaves its font in the context.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} number
 * @param {number} top
 * @param {number} height
 */
export function ghostLabel(plot, scene, number, top, height) {
    const x = ghostLeft(plot, scene, number);
    const refusal = scene.refusals[number];
    if (x === null || !refusal) return null;
    const text = `${sizeText(refusal.bytes)} refused`;
    plot.context.font = `600 12px ${scene.theme.font}`;
    const { width } = plot.context.measureText(text);
    const high = heightOf(scene, top, height)(scene.ghostTop(number));
    return { text, left: LEFT + Math.min(x, plot.width - width - 4), width, y: Math.max(8, high - 9) };
}

/**
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} number
 * @param {number} top
 * @param {number} height
 */
export function drawGhost(plot, scene, number, top, height) {
    const x = ghostLeft(plot, scene, number);
    const refusal = scene.refusals[number];
    if (x === null || !refusal) return;
    const { context } = plot;
    const { theme } = scene;
    const y = heightOf(scene, top, height);
    const [high, low] = [scene.ghostTop(number), reservedAt(scene.runs[number], refusal.event)].map(y);
    context.fillStyle = context.strokeStyle = theme.alarm;
    context.globalAlpha = 0.14;
    context.fillRect(LEFT + x, high, GHOST_WIDTH, low - high);
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    context.setLineDash([4, 3]);
    context.strokeRect(LEFT + x, high, GHOST_WIDTH, low - high);
    context.setLineDash([]);
    const label = ghostLabel(plot, scene, number, top, height);
    if (label) drawLabel(context, theme, label.text, label.left, label.y, theme.alarm);
    context.font = `11px ${theme.font}`;
}
