/** Numbers for people. Sizes are binary with two decimals, as on the command line. */

const SIZE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/**
 * 68031946752 → "63.36 GiB". Negative sizes, of differences, keep their sign.
 * @param {number} bytes
 * @returns {string}
 */
export function sizeText(bytes) {
    if (bytes < 0) return `−${sizeText(-bytes)}`;
    if (bytes < 1024) return `${bytes} B`;
    const unit = Math.min(SIZE_UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
    return `${(bytes / 1024 ** unit).toFixed(2)} ${SIZE_UNITS[unit]}`;
}

/**
 * Formats a difference of sizes: "+1.70 GiB", "−512 B", "0 B".
 * @param {number} bytes
 */
export function changeText(bytes) {
    return bytes > 0 ? `+${sizeText(bytes)}` : sizeText(bytes);
}

/**
 * 68031946752 → "68,031,946,752".
 * @param {number} number
 */
export function countText(number) {
    return String(Math.trunc(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {number} bytes */
export function exactBytes(bytes) {
    return `${countText(bytes)} bytes`;
}

/** @type {[number, string][]} */
const TIME_UNITS = [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
    [1, "ns"],
];

/**
 * 64204123 → "64.204 ms".
 * @param {number} ns
 */
export function timeText(ns) {
    if (ns === 0) return "0 s";
    const [scale, unit] = TIME_UNITS.find(([each]) => Math.abs(ns) >= each) ?? TIME_UNITS[3];
    return `${(ns / scale).toFixed(scale === 1 ? 0 : 3)} ${unit}`;
}

/**
 * Formats a percentage: "41.7 %"; "<0.1 %" for more than nothing that would round to 0.0 %.
 * @param {number} part
 * @param {number} whole
 */
export function percentText(part, whole) {
    if (whole === 0) return "–";
    const percent = (100 * part) / whole;
    return percent > 0 && percent < 0.05 ? "<0.1 %" : `${percent.toFixed(1)} %`;
}

/**
 * "1 block", "2 blocks".
 * @param {number} count
 * @param {string} noun
 */
export function plural(count, noun) {
    return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Returns a step of 1, 2 or 5 times a power of ten that makes at most `most` ticks over `span`.
 * @param {number} span
 * @param {number} most
 */
export function decimalStep(span, most) {
    const rough = span / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) ?? 10 * power;
}

/**
 * Returns the same in powers of two, for bytes.
 * @param {number} span
 * @param {number} most
 */
export function binaryStep(span, most) {
    return 2 ** Math.max(0, Math.ceil(Math.log2(span / Math.max(1, most))));
}

/**
 * Formats a tick of an axis of bytes, with as few decimals as possible.
 * @param {number} bytes
 */
export function sizeTick(bytes) {
    return sizeText(bytes).replace(/\.0+ |(\.\d*[1-9])0+ /, "$1 ");
}

/**
 * Returns how ticks of addresses are written so that any two differ: counted from `base`, which is 0 or that of a larger unit.
 * @param {number} low   the lowest address in view
 * @param {number} step   from a tick to the next
 * @returns {{base: number, text: (address: number) => string}}
 */
export function addressTicks(low, step) {
    let power = 0; // of the unit that ticks are written in: two decimals tell a step of 1/64 of it
    while (1024 ** (power + 1) <= step * 64 && power + 1 < SIZE_UNITS.length - 1) power++;
    const base = Math.floor(low / 1024 ** (power + 1)) * 1024 ** (power + 1);
    /** @param {number} bytes */
    const inUnit = (bytes) => String(Number((bytes / 1024 ** power).toFixed(2)));
    return {
        base,
        text: (address) => (base > 0 ? `+${inUnit(address - base)} ${SIZE_UNITS[power]}` : sizeTick(address)),
    };
}

/**
 * Formats an address without rounding: "57 GiB 250 MiB 512 B".
 * @param {number} address
 */
export function addressText(address) {
    const parts = [];
    for (let power = 5, rest = address; power >= 0; power--) {
        const count = Math.floor(rest / 1024 ** power);
        rest -= count * 1024 ** power;
        if (count > 0) parts.push(`${count} ${SIZE_UNITS[power]}`);
    }
    return parts.length > 0 ? parts.join(" ") : "0 B";
}

/**
 * Formats a tick of a time axis with `step` ns between ticks.
 * @param {number} ns
 * @param {number} step
 */
export function timeTick(ns, step) {
    if (ns === 0) return "0";
    const [scale, unit] = TIME_UNITS.find(([each]) => Math.abs(ns) >= each) ?? TIME_UNITS[3];
    const decimals = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / scale) - 1e-9)));
    return `${(ns / scale).toFixed(decimals)} ${unit}`;
}
