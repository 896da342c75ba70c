/**
 * The data of the page, in the format of docs/page.md: chunks of base64 and zlib become typed arrays.
 *
 * Relies on nothing but the browser (or node, for tests). Data that does not match the format throws an Error with a
 * message for people.
 *
 * @typedef {{name: string, width: number, coding: "plain" | "delta", unit: number, first: number[]}} Column
 * @typedef {{rows: number, part_rows: number, first_chunk: number, columns: Column[]}} Table
 * @typedef {Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array} NumberArray
 * @typedef {Record<string, NumberArray>} TableColumns   by name
 * @typedef {(name: string) => Promise<TableColumns | undefined>} TableReader   undefined: the run lacks the table
 *
 * @typedef {Object} RunInfo
 * @property {string} trace
 * @property {number} id
 * @property {string} name
 * @property {string} state
 * @property {string} device
 * @property {number} capacity_bytes
 * @property {number} first_event
 * @property {number} event_count
 * @property {number} lost_events
 * @property {number} time_unit_ns
 * @property {[string, string][]} settings
 * @property {Record<string, Peak>} peaks   by measure
 * @property {Record<string, Table>} tables
 *
 * @typedef {{format: number, texts: string[], categories: string[], phases: string[], runs: RunInfo[]}} Description
 */

export const FORMAT = 3;
/** Categories are numbers of one byte, with one left for blocks without a label. */
const MOST_CATEGORIES = 255;

/** @param {string} text */
function bytesOfBase64(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    return bytes;
}

/**
 * Returns the bytes of a chunk. Uses no Blob, since browsers send its contents to another process and back.
 * @param {string} base64
 */
export async function inflate(base64) {
    const stream = new DecompressionStream("deflate");
    const writer = stream.writable.getWriter();
    const written = writer.write(bytesOfBase64(base64)).then(() => writer.close());
    const [bytes] = await Promise.all([new Response(stream.readable).arrayBuffer(), written]);
    return new Uint8Array(bytes);
}

/**
 * Returns the description, from the bytes of chunk 0.
 * @param {Uint8Array} bytes
 */
export function readDescription(bytes) {
    const description = JSON.parse(new TextDecoder().decode(bytes));
    if (description.format !== FORMAT)
        throw new Error(`this page reads format ${FORMAT}, and its data has format ${description.format}`);
    if (description.categories.length > MOST_CATEGORIES)
        throw new Error(`the page has ${description.categories.length} categories, more than ${MOST_CATEGORIES}`);
    return description;
}

/**
 * Returns an array for `rows` values of a column: the narrowest that is certainly wide enough.
 * @param {Column} column
 * @param {number} rows
 */
function arrayFor(column, rows) {
    if (column.coding === "delta") return new Float64Array(rows); // a sum may exceed its parts
    const largest = (256 ** column.width - 1) * column.unit;
    if (largest < 256) return new Uint8Array(rows);
    if (largest < 65536) return new Uint16Array(rows);
    if (largest < 2 ** 32) return new Uint32Array(rows);
    return new Float64Array(rows);
}

/**
 * Joins the byte planes of a column. One plane is used as it is, up to four are joined in `words`, and numbers of more
 * than 32 bits need another array.
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} width
 * @param {Uint32Array} words
 */
function joinPlanes(bytes, at, width, words) {
    const rows = words.length;
    const planes = Array.from({ length: width }, (_, i) => bytes.subarray(at + i * rows, at + (i + 1) * rows));
    if (width === 0) return words.fill(0);
    if (width === 1) return planes[0];
    if (width === 2) joinTwo(words, planes[0], planes[1]);
    else if (width === 3) joinThree(words, planes[0], planes[1], planes[2]);
    else joinFour(words, planes[0], planes[1], planes[2], planes[3]);
    if (width <= 4) return words;
    const [, , , , fifth, sixth] = planes;
    return Float64Array.from(words, (low, i) => low + (fifth[i] + (sixth ? sixth[i] * 256 : 0)) * 2 ** 32);
}

/**
 * @param {Uint32Array} words
 * @param {Uint8Array} first
 * @param {Uint8Array} second
 */
function joinTwo(words, first, second) {
    for (let i = 0; i < words.length; i++) words[i] = first[i] | (second[i] << 8);
}

/**
 * @param {Uint32Array} words
 * @param {Uint8Array} first
 * @param {Uint8Array} second
 * @param {Uint8Array} third
 */
function joinThree(words, first, second, third) {
    for (let i = 0; i < words.length; i++) words[i] = first[i] | (second[i] << 8) | (third[i] << 16);
}

/**
 * @param {Uint32Array} words
 * @param {Uint8Array} first
 * @param {Uint8Array} second
 * @param {Uint8Array} third
 * @param {Uint8Array} fourth
 */
function joinFour(words, first, second, third, fourth) {
    for (let i = 0; i < words.length; i++)
        words[i] = first[i] | (second[i] << 8) | (third[i] << 16) | (fourth[i] << 24);
}

/**
 * Converts the stored numbers of a part of a column, from row `from` on, to its values.
 * @param {Column} column
 * @param {number} part
 * @param {NumberArray} out
 * @param {number} from
 * @param {number} rows
 */
function undoCoding(column, part, out, from, rows) {
    const unit = column.unit;
    if (column.coding === "delta") {
        let value = column.first[part];
        for (let i = from; i < from + rows; i++) out[i] = value += out[i] * unit;
    } else if (unit !== 1) {
        for (let i = from; i < from + rows; i++) out[i] *= unit;
    }
}

/**
 * @param {string} name
 * @param {Table} table
 */
function checkTable(name, table) {
    for (const column of table.columns)
        if (!(column.width >= 0 && column.width <= 6) || !["plain", "delta"].includes(column.coding))
            throw new Error(`the page is damaged: column ${name}.${column.name} has an unknown coding`);
}

/**
 * Reads a whole table.
 * @param {string} name of the table, for errors
 * @param {Table} table
 * @param {(number: number) => Promise<Uint8Array>} chunk returns the bytes of a chunk
 * @param {Record<string, (rows: number) => NumberArray>} arrays makes the array of a column, if the narrowest one
 *   is not suitable; it may be longer
 * @returns {Promise<TableColumns>}
 */
export async function readTable(name, table, chunk, arrays = {}) {
    checkTable(name, table);
    /** @type {TableColumns} */
    const out = {};
    for (const column of table.columns)
        out[column.name] = arrays[column.name]?.(table.rows) ?? arrayFor(column, table.rows);
    const words = new Uint32Array(Math.min(table.part_rows, table.rows));
    for (let part = 0; part * table.part_rows < table.rows; part++) {
        const from = part * table.part_rows;
        const rows = Math.min(table.part_rows, table.rows - from);
        const bytes = await chunk(table.first_chunk + part);
        const expected = table.columns.reduce((sum, column) => sum + column.width * rows, 0);
        if (bytes.length !== expected)
            throw new Error(
                `the page is damaged: chunk ${table.first_chunk + part} (${name}) holds ${bytes.length} ` +
                    `bytes, not ${expected}`,
            );
        let at = 0;
        for (const column of table.columns) {
            out[column.name].set(joinPlanes(bytes, at, column.width, words.subarray(0, rows)), from);
            undoCoding(column, part, out[column.name], from, rows);
            at += column.width * rows;
        }
    }
    return out;
}
