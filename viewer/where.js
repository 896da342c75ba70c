/** Where in the program a moment is: in words, with the names that the trace has for it. */
import { intervalAt } from "./marks.js";
import { countText, timeText } from "./numbers.js";

/** The innermost span around a moment, ""  outside of all. */
function spanAt(run, texts, moment) {
    for (let depth = run.lanes.spans.length - 1; depth >= 0; depth--) {
        const lane = run.lanes.spans[depth];
        const i = intervalAt(lane, moment);
        if (i >= 0) return texts[lane.text[i]];
    }
    return "";
}

/**
 * @returns {{step: string, phase: string, span: string, time: string, event: number}} "" where there is none;
 *   the event as the trace numbers it
 */
export function describeMoment(description, run, moment) {
    if (moment < 0) return { step: "", phase: "", span: "", time: timeText(0), event: run.info.first_event };
    const { steps, phases } = run.lanes;
    const step = intervalAt(steps, moment);
    const phase = intervalAt(phases, moment);
    return {
        step: step < 0 ? "" : `step ${steps.text[step]}`,
        phase: phase < 0 ? "" : (description.phases[phases.text[phase]] ?? ""),
        span: spanAt(run, description.texts, moment),
        time: run.timed ? timeText(run.time[moment]) : "",
        event: run.info.first_event + moment,
    };
}

/** "step 1, backward, model.layers.7.ffn" */
export function placeText(place) {
    const named = [place.step || "before the first step", place.phase, place.span];
    return [...new Set(named)].filter((text) => text).join(", ");
}

/** "step 1 · backward · model.layers.7 · 64.204 ms · event 17,041" */
export function momentText(place) {
    return [...new Set([place.step, place.phase, place.span]), place.time, `event ${countText(place.event)}`]
        .filter((text) => text)
        .join(" · ");
}

/** A run's name for people. */
export function runName(info) {
    return info.name ? info.name : `run ${info.id}`;
}
