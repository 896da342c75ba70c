/** When events happened: exactly, and, for a first picture, nearly. In nanoseconds, and behind them the run's end. */

/** Makes nanoseconds of the times of `count` events, in place, and puts the run's end behind them. */
export function timesOf(time, count, unitNs) {
    if (unitNs !== 1) for (let i = 0; i < count; i++) time[i] *= unitNs;
    time[count] = count > 0 ? time[count - 1] : 0;
    return time;
}

/** The times of a run's events as lines between knots have them: near enough for a picture of the whole run. */
export function timesBetween({ event, time }, { event_count: count, time_unit_ns: unitNs }) {
    const times = new Float64Array(count + 1);
    for (let knot = 1; knot < event.length; knot++) {
        const begin = event[knot - 1];
        const pitch = (time[knot] - time[knot - 1]) / (event[knot] - begin);
        for (let i = begin; i < event[knot]; i++) times[i] = time[knot - 1] + (i - begin) * pitch;
    }
    if (count > 0) times[count - 1] = time[event.length - 1];
    return timesOf(times, count, unitNs);
}
