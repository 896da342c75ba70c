/**
 * A canvas with a margin for its axis. Sizes are in CSS pixels, and sharp on any screen. An image of raw pixels lies
 * below lines and text.
 */

import { contextOf } from "./dom.js";

/** The margins of all charts, so that their x agree. */
export const LEFT = 78;
export const RIGHT = 12;

/**
 * Returns the origin of an element's contents, inside its border: [left, top].
 * @param {Element} element
 */
export function insideOf(element) {
    const { left, top } = element.getBoundingClientRect();
    return [left + element.clientLeft, top + element.clientTop];
}

export class Plot {
    /** @param {HTMLCanvasElement} canvas */
    constructor(canvas) {
        this.canvas = canvas;
        this.context = contextOf(canvas);
        this.ratio = 1; // pixels of the canvas for each CSS pixel
        this.width = 1; // of the area between the margins
        this.height = 1;
        this.image = new ImageData(1, 1);
        this.pixels = new Uint32Array(this.image.data.buffer);
    }

    /** Fits the canvas to its box. Sets width and height of the area between the margins. */
    fit() {
        const box = this.canvas.getBoundingClientRect();
        this.ratio = Math.min(2, window.devicePixelRatio || 1);
        const width = Math.max(1, Math.round(box.width * this.ratio));
        const height = Math.max(1, Math.round(box.height * this.ratio));
        if (this.canvas.width !== width || this.canvas.height !== height) {
            this.canvas.width = width;
            this.canvas.height = height;
        }
        this.width = Math.max(1, Math.floor(box.width) - LEFT - RIGHT);
        this.height = Math.max(1, Math.floor(box.height));
    }

    /** The pixels of an image for each CSS pixel. */
    get scale() {
        return this.ratio >= 1.5 ? 2 : 1;
    }

    /**
     * Clears the canvas. From here on, units are CSS pixels.
     * @param {Theme} theme
     */
    begin(theme) {
        this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        this.context.clearRect(0, 0, this.width + LEFT + RIGHT, this.height);
        this.context.font = `11px ${theme.font}`;
        this.context.textBaseline = "middle";
        this.context.textAlign = "left";
    }

    /**
     * Returns pixels for the box between the margins from `top` on, an integral number of them for each CSS pixel.
     * @param {number} height
     * @returns {{pixels: Uint32Array, width: number, height: number, scale: number}}
     */
    takePixels(height) {
        const { scale } = this;
        const width = this.width * scale;
        const rows = Math.max(1, Math.floor(height) * scale);
        if (this.image.width !== width || this.image.height !== rows) {
            this.image = new ImageData(width, rows);
            this.pixels = new Uint32Array(this.image.data.buffer);
        }
        return { pixels: this.pixels, width, height: rows, scale };
    }

    /**
     * Puts them on the canvas: directly if the scale is 1, else through another canvas that scales them.
     * @param {number} top
     * @param {number} height
     */
    putPixels(top, height) {
        if (this.image.width === this.width * this.ratio) {
            this.context.putImageData(this.image, LEFT * this.ratio, top * this.ratio);
            return;
        }
        const sheet = new OffscreenCanvas(this.image.width, this.image.height);
        sheet.getContext("2d")?.putImageData(this.image, 0, 0);
        this.context.imageSmoothingEnabled = false;
        this.context.drawImage(sheet, LEFT, top, this.width, Math.floor(height));
    }
}

/**
 * Returns the text, cut to fit into `width`; "" if nothing fits.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} width
 */
export function fitText(context, text, width) {
    if (text.length * 3 > width && context.measureText(text.slice(0, 200)).width > width) {
        let keep = Math.floor(width / 5.5) - 1;
        while (keep > 2 && context.measureText(`${text.slice(0, keep)}…`).width > width) keep -= 1;
        return keep > 2 ? `${text.slice(0, keep)}…` : "";
    }
    return context.measureText(text).width <= width ? text : "";
}

/**
 * Strokes the path of a context so that it can be seen on any picture.
 * @param {CanvasRenderingContext2D} context
 * @param {Theme} theme
 */
export function strokeOnAny(context, theme) {
    context.strokeStyle = theme.background;
    context.lineWidth = 5;
    context.stroke();
    context.strokeStyle = theme.accent;
    context.lineWidth = 2;
    context.stroke();
}

/**
 * Draws a text that can be read on any picture: on a box of the background. x and y are its left and its middle.
 * @param {CanvasRenderingContext2D} context
 * @param {Theme} theme
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {string} color
 */
export function drawLabel(context, theme, text, x, y, color) {
    const { width } = context.measureText(text);
    context.fillStyle = theme.background;
    context.fillRect(x - 3, y - 8, width + 6, 16);
    context.fillStyle = color;
    context.fillText(text, x, y);
}

/**
 * Draws lines and sizes along a vertical axis of bytes, from 0 at `bottom` to `most` at `top`.
 * @param {Plot} plot
 * @param {Theme} theme
 * @param {number} top
 * @param {number} bottom
 * @param {number} most
 * @param {number} step
 * @param {(bytes: number) => string} label
 */
export function drawSizeAxis(plot, theme, top, bottom, most, step, label) {
    const { context } = plot;
    context.strokeStyle = theme.line;
    context.fillStyle = theme.faint;
    context.textAlign = "right";
    context.lineWidth = 1;
    for (let bytes = 0; bytes <= most; bytes += step) {
        const y = Math.round(bottom - (bytes / most) * (bottom - top)) + 0.5;
        context.globalAlpha = 0.55;
        context.beginPath();
        context.moveTo(LEFT, y);
        context.lineTo(LEFT + plot.width, y);
        context.stroke();
        context.globalAlpha = 1;
        context.fillText(label(bytes), LEFT - 7, Math.min(bottom - 6, Math.max(top + 6, y)));
    }
    context.textAlign = "left";
}
