/** The way to the peak, for the button and the key. */
import { byId, setText } from "./dom.js";
import { sizeText } from "./numbers.js";
import { withRange } from "./view.js";
import { describeMoment, momentText } from "./where.js";

/**
 * Returns "Softmax: 1.20 GiB at its peak, step 1 · forward", in the run of the map.
 * @param {Scene} scene
 */
function shownPeakText(scene) {
    const { bytes, event } = scene.shownPeak(scene.mapRun);
    const place = momentText(describeMoment(scene.description, scene.runs[scene.mapRun], event));
    const name = scene.isolated < 0 ? "What is shown" : scene.colors[scene.isolated].name;
    return `${name}: ${sizeText(bytes)} at its peak, ${place}`;
}

/**
 * Pins the peak of the blocks that are shown, zooms in on it, and announces it.
 * @param {Scene} scene
 */
export function goToPeak(scene) {
    const moments = scene.runs.map((_, number) => scene.shownPeak(number).event);
    scene.pin(moments);
    const x = scene.pinnedX(scene.mapRun);
    const span = Math.min(scene.view.x1 - scene.view.x0, scene.axis.length / 8);
    scene.set({ view: withRange(scene.view, scene.axis, x - span / 2, x + span / 2) });
    setText(byId("said"), scene.isFiltered ? shownPeakText(scene) : byId("answer").textContent);
}
