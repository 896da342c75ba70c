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
    /** @param {number} bytes */
    const y = (bytes) => top + height - (bytes / scene.areaTop) * height;
    const [high, low] = [scene.ghostTop(number), reservedAt(scene.runs[number], refusal.event)].map(y);
    context.fillStyle = context.strokeStyle = theme.alarm;
    context.globalAlpha = 0.14;
    context.fillRect(LEFT + x, high, GHOST_WIDTH, low - high);
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    context.setLineDash([4, 3]);
    context.strokeRect(LEFT + x, high, GHOST_WIDTH, low - high);
    context.setLineDash([]);
    const text = `${sizeText(refusal.bytes)} refused`;
    context.font = `600 12px ${theme.font}`;
    const left = Math.min(x, plot.width - context.measureText(text).width - 4);
    drawLabel(context, theme, text, LEFT + left, Math.max(8, high - 9), theme.alarm);
    context.font = `11px ${theme.font}`;
}
