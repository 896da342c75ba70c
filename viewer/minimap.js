/** The whole run in miniature, with the view as a window that can be dragged. */
import { columnsOfView, rasterArea } from "./area_raster.js";
import { LEFT } from "./plot.js";

/** The picture changes only with the colours and the axis. Otherwise only the window moves. */
export class Minimap {
    /** @param {Plot} plot */
    constructor(plot) {
        this.plot = plot;
        /** @type {unknown[]} */
        this.madeFrom = [];
    }

    /** @param {Scene} scene */
    draw(scene) {
        const { plot } = this;
        const { theme, axis, view, colors, stack, mapRun } = scene;
        plot.begin(theme);
        const picture = plot.takePixels(plot.height);
        const from = [axis, scene.shown(mapRun), theme, mapRun, picture.pixels];
        if (from.some((each, i) => each !== this.madeFrom[i])) {
            this.madeFrom = from;
            const whole = { ...view, x0: 0, x1: axis.length };
            const columns = columnsOfView(scene.runs[mapRun], scene.shown(mapRun), mapRun, axis, whole, picture.width);
            rasterArea(
                { width: picture.width, height: picture.height, colors, stack, theme, top: scene.areaTop },
                columns,
                picture.pixels,
            );
        }
        plot.putPixels(0, plot.height);
        this.drawWindow(theme, view.x0 / axis.length, view.x1 / axis.length);
    }

    /**
     * @param {Theme} theme
     * @param {number} from
     * @param {number} to
     */
    drawWindow(theme, from, to) {
        const { context, width, height } = this.plot;
        context.fillStyle = theme.background;
        context.globalAlpha = 0.72;
        context.fillRect(LEFT, 0, from * width, height);
        context.fillRect(LEFT + to * width, 0, (1 - to) * width, height);
        context.globalAlpha = 1;
        context.strokeStyle = theme.text;
        context.lineWidth = 1;
        context.strokeRect(LEFT + from * width + 0.5, 0.5, Math.max(2, (to - from) * width - 1), height - 1);
    }
}
