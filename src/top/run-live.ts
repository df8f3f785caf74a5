/** The live view: reads, shows, and does what keys ask for, until someone ends it. */
import { sleep } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { NameLookup } from "./name-lookup.ts";
import { notesOf } from "./notes.ts";
import type { TopOptions, TopParts } from "./options.ts";
import { paint } from "./paint.ts";
import {
  type EndpointsReading,
  isCounting,
  readEndpoints,
  readServers,
  type ServersReading,
  type TopKernel,
} from "./read-kernel.ts";
import { ReadingHistory } from "./reading.ts";
import { endpointRowsOf, rowsOf, type TopRow } from "./rows.ts";
import { layOut, type Screen, type ScreenLine } from "./screen.ts";
import type { Terminal } from "./terminal.ts";
import { press, type ViewState } from "./view-state.ts";

export interface LiveParts extends Pick<TopParts, "clock" | "readNames"> {
  readonly kernel: TopKernel;
  readonly terminal: Terminal;
}

type LiveOptions = Omit<TopOptions, "isBatch" | "format">;

/** Resolves with the exit code; rejects where the first reading fails. */
export async function runLive(parts: LiveParts, options: LiveOptions): Promise<number> {
  const view = new LiveView(parts, options);
  await view.read();
  parts.terminal.listen(view);
  while (view.exitCode === undefined) {
    view.draw();
    await view.waitForNext();
    if (view.exitCode === undefined && view.mayRead) await view.readAgain();
  }
  return view.exitCode;
}

class LiveView {
  readonly #parts: LiveParts;
  readonly #options: LiveOptions;
  readonly #names: NameLookup;
  #state: ViewState;
  readonly #servers = new ReadingHistory<ServersReading>();
  #endpoints = new ReadingHistory<EndpointsReading>();
  /** Which row they are of. */
  #endpointsOf: string | undefined;
  #rows: readonly TopRow[] = [];
  #screen: Screen | undefined;
  #painted: readonly ScreenLine[] | undefined;
  #failure: string | undefined;
  #wake = new AbortController();
  #exitCode: number | undefined;
  #readMs = 0;

  constructor(parts: LiveParts, options: LiveOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#names = new NameLookup(parts.readNames, parts.clock);
    this.#state = {
      sort: options.sort,
      isReversed: false,
      filter: options.filter,
      isPaused: false,
    };
  }

  /** Undefined: nobody has ended it yet. */
  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  get mayRead(): boolean {
    return !this.#state.isPaused;
  }

  async read(): Promise<void> {
    const { clock, kernel } = this.#parts;
    const beganMs = clock.monotonicMs();
    const reading = await readServers(kernel, clock);
    this.#servers.add(reading);
    this.#makeRows();
    await this.#readEndpoints();
    this.#readMs = clock.monotonicMs() - beganMs;
    this.#failure = undefined;
    // Names come when they come.
    void this.#names.ask(reading.servers.keys()).then(() => {
      this.#makeRows();
      this.draw();
    });
  }

  /** What fails now may work the next time; until then the figures are old. */
  async readAgain(): Promise<void> {
    try {
      await this.read();
    } catch (error) {
      this.#failure = errorText(error);
    }
  }

  draw(): void {
    if (this.#exitCode !== undefined) return;
    const { terminal, kernel } = this.#parts;
    const isOn = isCounting(kernel);
    const notes = notesOf({ isCounting: isOn, missingNames: this.#names.missingReason });
    this.#screen = layOut(
      {
        state: this.#state,
        rows: this.#rows,
        endpoints: endpointRowsOf(this.#endpoints.last?.endpoints ?? [], (key) =>
          this.#endpoints.figuresOf(key),
        ),
        isCounting: isOn,
        intervalText: this.#options.intervalText,
        notes: this.#failure === undefined ? notes : [this.#failure, ...notes],
      },
      terminal.size(),
    );
    terminal.write(paint(this.#screen.lines, this.#painted, this.#options.hasColor));
    this.#painted = this.#screen.lines;
  }

  /** Until the interval is over, or a key asks for a reading; reading takes half of the time at most. */
  async waitForNext(): Promise<void> {
    this.#wake = new AbortController();
    const pauseMs = Math.max(this.#options.intervalMs - this.#readMs, this.#readMs);
    await sleep(this.#parts.clock, pauseMs, this.#wake.signal);
  }

  onKey = (key: string): void => {
    const shown = this.#screen?.shown ?? { keys: [], pageSize: 1 };
    const { state, effect } = press(this.#state, key, shown);
    this.#state = state;
    if (effect === "quit") this.#end(0);
    if (effect === "read") this.#wake.abort();
    this.draw();
  };

  onResize = (): void => {
    this.#painted = undefined;
    this.draw();
  };

  onSignal = (exitCode: number): void => this.#end(exitCode);

  #end(exitCode: number): void {
    this.#exitCode ??= exitCode;
    this.#wake.abort();
  }

  #makeRows(): void {
    const ids = this.#servers.last?.ids ?? [];
    this.#rows = rowsOf(ids, this.#names.owners, (key) => this.#servers.figuresOf(key));
  }

  async #readEndpoints(): Promise<void> {
    const { opened } = this.#state;
    if (opened !== this.#endpointsOf) {
      this.#endpoints = new ReadingHistory();
      this.#endpointsOf = opened;
    }
    const row = this.#rows.find(({ label }) => label === opened);
    if (row === undefined) return;
    const { kernel, clock } = this.#parts;
    this.#endpoints.add(await readEndpoints(kernel, clock, row.servers));
  }
}
