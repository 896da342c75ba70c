/**
 * The difference of two runs, second minus first, by category on their common axis: increases above the line, decreases
 * below.
 */
import { largestDifference, rasterDifference } from "./area_raster.js";
import { binaryStep, sizeTick } from "./numbers.js";
import { LEFT } from "./plot.js";

/**
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {AreaColumns} first
 * @param {AreaColumns} second
 */
export function drawDifference(plot, scene, first, second) {
    const { theme, colors, stack } = scene;
    plot.begin(theme);
    const picture = plot.takePixels(plot.height);
    const top = Math.max(1, largestDifference(first, second, colors.length)) * 1.05;
    rasterDifference(
        { width: picture.width, height: picture.height, colors, stack, theme, top },
        first,
        second,
        picture.pixels,
    );
    plot.putPixels(0, plot.height);
    drawSignedAxis(plot, theme, top);
    return top;
}

/**
 * @param {Plot} plot
 * @param {Theme} theme
 * @param {number} top
 */
function drawSignedAxis(plot, theme, top) {
    const { context } = plot;
    const middle = plot.height / 2;
    const step = binaryStep(top, Math.max(2, middle / 22));
    context.textAlign = "right";
    context.fillStyle = theme.faint;
    context.strokeStyle = theme.line;
    for (let bytes = -Math.floor(top / step) * step; bytes <= top; bytes += step) {
        const y = Math.round(middle - (bytes / top) * middle) + 0.5;
        context.globalAlpha = bytes === 0 ? 1 : 0.5;
        context.beginPath();
        context.moveTo(LEFT, y);
        context.lineTo(LEFT + plot.width, y);
        context.stroke();
        context.globalAlpha = 1;
        const sign = bytes > 0 ? "+" : "";
        context.fillText(sign + sizeTick(bytes), LEFT - 7, Math.min(plot.height - 7, Math.max(7, y)));
    }
    context.textAlign = "left";
}
