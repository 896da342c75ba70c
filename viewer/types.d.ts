/**
 * The names of types for all files of this folder. Each type is told where it is made. Only the checker reads this file
 * (tests/viewer/tsconfig.json).
 */
type AlikeGroup = import("./alike.js").AlikeGroup;
type Attributes = import("./dom.js").Attributes;
type Answers = import("./answers.js").Answers;
type AreaColumns = import("./area_raster.js").AreaColumns;
type Axis = import("./axis.js").Axis;
type AxisKind = Axis["kind"];
type Bar = import("./bars.js").Bar;
type BarRow = import("./bars.js").BarRow;
type Blocks = import("./store.js").Blocks;
type CategoryColor = import("./colors.js").CategoryColor;
type Change = import("./answers.js").Change;
type Changes = import("./composition.js").Changes;
type Column = import("./decode.js").Column;
type Curve = import("./answers.js").Curve;
type Description = import("./decode.js").Description;
type GridPlace = import("./grid.js").GridPlace;
type Grid = import("./grid.js").Grid;
type Highest = import("./composition.js").Highest;
type Hover = import("./pointer.js").Hover;
type Lane = import("./marks.js").Lane;
type Lanes = import("./marks.js").Lanes;
type Levels = import("./levels.js").Levels;
type MapPicture = import("./map_raster.js").MapPicture;
type Mask = import("./filter.js").Mask;
type Memory = import("./composition.js").Memory;
type NumberArray = import("./decode.js").NumberArray;
type Overlay = import("./overlay.js").Overlay;
type Painter = import("./painter.js").Painter;
type Parts = import("./store.js").Parts;
type Peak = import("./store.js").Peak;
type PeakIndex = import("./composition.js").PeakIndex;
type Place = import("./where.js").Place;
type Plot = import("./plot.js").Plot;
type Plots = import("./painter.js").Plots;
type Refusal = import("./marks.js").Refusal;
type Reserved = import("./store.js").Reserved;
type Rgb = import("./colors.js").Rgb;
type Run = import("./store.js").Run;
type RunInfo = import("./decode.js").RunInfo;
type Scene = import("./scene.js").Scene;
type Segments = import("./store.js").Segments;
type Stacks = import("./stack.js").Stacks;
type Table = import("./decode.js").Table;
type TableColumns = import("./decode.js").TableColumns;
type TableReader = import("./decode.js").TableReader;
type Theme = import("./colors.js").Theme;
type View = import("./view.js").View;
type Remedy = import("./answers.js").Remedy;
type WhatIfAnswer = import("./answers.js").WhatIfAnswer;

/** The elements of page.html by id that are more than any element. */
interface PageElements {
    axis: HTMLSelectElement;
    bars: HTMLCanvasElement;
    card: HTMLSelectElement;
    "group-key": HTMLSelectElement;
    keys: HTMLDialogElement;
    map: HTMLCanvasElement;
    "map-run": HTMLSelectElement;
    minimap: HTMLCanvasElement;
    overlay: HTMLCanvasElement;
    "rank-chart": HTMLTemplateElement;
    save: HTMLSelectElement;
    search: HTMLInputElement;
    strip: HTMLCanvasElement;
}

interface Window {
    /** What start.js leaves for main.js. */
    memtrace: { worker: Worker; workerSource: string };
}

interface Uint8ArrayConstructor {
    /** Not in all browsers. */
    fromBase64?(text: string): Uint8Array<ArrayBuffer>;
}
