/**
 * Times of events in nanoseconds, with the time of the run's end after them: exact ones, and approximate ones for the
 * first picture.
 */

/**
 * Converts the times of `count` events to nanoseconds, in place, and appends the run's end.
 * @param {Float64Array} time
 * @param {number} count
 * @param {number} unitNs
 */
export function timesOf(time, count, unitNs) {
    if (unitNs !== 1) for (let i = 0; i < count; i++) time[i] *= unitNs;
    time[count] = count > 0 ? time[count - 1] : 0;
    return time;
}

/**
 * Returns the times of a run's events, interpolated between knots: close enough for a picture of the whole run.
 * @param {TableColumns} knots
 * @param {RunInfo} info
 */
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
