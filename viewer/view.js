/**
 * The view: a range of the axis and a range of addresses. It stays inside of both.
 *
 * @typedef {{x0: number, x1: number, low: number, high: number}} View
 */

/**
 * Returns the view of everything.
 * @param {Axis} axis
 * @param {number} addressBytes
 */
export function wholeView(axis, addressBytes) {
    return { x0: 0, x1: axis.length, low: 0, high: Math.max(1, addressBytes) };
}

/**
 * @param {number} from
 * @param {number} to
 * @param {number} least
 * @param {number} most
 */
function clampRange(from, to, least, most) {
    if (from >= 0 && to <= most && to - from >= least) return [from, to];
    const span = Math.min(most, Math.max(least, to - from));
    const middle = (from + to) / 2;
    const begin = Math.min(Math.max(0, to - from === span ? from : middle - span / 2), most - span);
    return [begin, begin + span];
}

/**
 * Returns the view with another range of x, kept inside.
 * @param {View} view
 * @param {Axis} axis
 * @param {number} x0
 * @param {number} x1
 */
export function withRange(view, axis, x0, x1) {
    const [from, to] = clampRange(x0, x1, Math.min(axis.shortest, axis.length), axis.length);
    return { ...view, x0: from, x1: to };
}

/**
 * Returns the view narrower (factor < 1) or wider, with x at its place.
 * @param {View} view
 * @param {Axis} axis
 * @param {number} x
 * @param {number} factor
 */
export function zoomAt(view, axis, x, factor) {
    const least = Math.min(axis.shortest, axis.length);
    const span = Math.min(axis.length, Math.max(least, (view.x1 - view.x0) * factor));
    const begin = x - ((x - view.x0) / (view.x1 - view.x0)) * span;
    return withRange(view, axis, begin, begin + span);
}

/**
 * Returns the view moved by a part of its width.
 * @param {View} view
 * @param {Axis} axis
 * @param {number} part
 */
export function panBy(view, axis, part) {
    const by = (view.x1 - view.x0) * part;
    const begin = Math.min(Math.max(0, view.x0 + by), axis.length - (view.x1 - view.x0));
    return { ...view, x0: begin, x1: begin + (view.x1 - view.x0) };
}

const LEAST_ADDRESS_SPAN = 4096;

/**
 * Returns the view with another range of addresses, kept inside.
 * @param {View} view
 * @param {number} addressBytes
 * @param {number} from
 * @param {number} to
 */
export function withAddresses(view, addressBytes, from, to) {
    const most = Math.max(1, addressBytes);
    const [low, high] = clampRange(from, to, Math.min(LEAST_ADDRESS_SPAN, most), most);
    return { ...view, low, high };
}

/**
 * @param {View} view
 * @param {number} addressBytes
 * @param {number} address
 * @param {number} factor
 */
export function zoomAddressAt(view, addressBytes, address, factor) {
    const most = Math.max(1, addressBytes);
    const span = Math.min(most, Math.max(Math.min(LEAST_ADDRESS_SPAN, most), (view.high - view.low) * factor));
    const begin = address - ((address - view.low) / (view.high - view.low)) * span;
    return withAddresses(view, addressBytes, begin, begin + span);
}

/**
 * @param {View} view
 * @param {number} addressBytes
 * @param {number} part
 */
export function panAddressBy(view, addressBytes, part) {
    const span = view.high - view.low;
    const low = Math.min(Math.max(0, view.low + span * part), Math.max(1, addressBytes) - span);
    return { ...view, low, high: low + span };
}

/**
 * Returns the view with a point of the axis in its middle, unless the point is in view already.
 * @param {View} view
 * @param {Axis} axis
 * @param {number} x
 */
export function revealX(view, axis, x) {
    if (x >= view.x0 && x <= view.x1) return view;
    const half = (view.x1 - view.x0) / 2;
    return withRange(view, axis, x - half, x + half);
}
