/** The live view, which reads counters, shows them and handles keys until the user quits or a signal arrives. */
import type { TrafficRow } from "../answer/traffic.ts";
import { labelOf } from "../answer/traffic-view.ts";
import { sleep } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { sampleTraffic, type TrafficKernel } from "../kernel/sample-traffic.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import { NameLookup } from "./names.ts";
import type { TopOptions, TopSources } from "./options.ts";
import { estimatorNotes, SampleHistory } from "./reading.ts";
import { endpointRowsOf, rowsOf } from "./rows.ts";
import { layOut, type Screen, type ScreenLine } from "./screen.ts";
import type { Terminal } from "./terminal.ts";
import { press, type ViewState } from "./view-state.ts";

export interface LiveSources extends TopSources {
  readonly kernel: TrafficKernel;
  readonly terminal: Terminal;
}

/** Resolves with the exit code. Rejects if the first reading fails. */
export async function runLiveOn(sources: LiveSources, options: TopOptions): Promise<number> {
  const view = new LiveView(sources, options);
  await view.read();
  sources.terminal.listen(view);
  while (view.exitCode === undefined) {
    view.draw();
    await view.waitForNext();
    if (view.exitCode === undefined && view.mayRead) await view.readAgain();
  }
  return view.exitCode;
}

class LiveView {
  readonly #sources: LiveSources;
  readonly #options: TopOptions;
  readonly #names: NameLookup;
  #state: ViewState;
  readonly #servers = new SampleHistory();
  #endpoints = new SampleHistory();
  /** Label of the row to which `#endpoints` belongs. Earlier samples lack the row's endpoints. */
  #endpointsOf: string | undefined;
  #rows: readonly TrafficRow[] = [];
  #screen: Screen | undefined;
  #failure: string | undefined;
  #wake = new AbortController();
  #exitCode: number | undefined;
  #readMs = 0;

  constructor(sources: LiveSources, options: TopOptions) {
    this.#sources = sources;
    this.#options = options;
    this.#names = new NameLookup(sources.readNames, sources.clock);
    this.#state = {
      sort: options.sort,
      isReversed: false,
      filter: options.filter,
      isPaused: false,
    };
  }

  /** The exit code, once the view has ended. Undefined while it is running. */
  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  get mayRead(): boolean {
    return !this.#state.isPaused;
  }

  async read(): Promise<void> {
    const { clock, kernel } = this.#sources;
    const beganMs = clock.monotonicMs();
    const { opened } = this.#state;
    if (opened !== this.#endpointsOf) this.#endpoints = new SampleHistory();
    this.#endpointsOf = opened;
    const row = this.#rows.find((one) => labelOf(one) === opened);
    const isOpened = new Set(
      row?.virtualServers.map((id) => virtualServerKey({ protocol: row.protocol, ...id })),
    );
    const sample = await sampleTraffic(kernel, clock, (key) => isOpened.has(key));
    this.#servers.add(sample);
    this.#endpoints.add(sample);
    this.#makeRows();
    this.#readMs = clock.monotonicMs() - beganMs;
    this.#failure = undefined;
    // A name lookup may take longer than a reading.
    void this.#names.ask(sample.servers.map(({ key }) => key)).then(() => {
      this.#makeRows();
      this.draw();
    });
  }

  /** Takes another reading. If it fails, shows the error and the old figures until the next one. */
  async readAgain(): Promise<void> {
    try {
      await this.read();
    } catch (error) {
      this.#failure = errorText(error);
    }
  }

  draw(): void {
    if (this.#exitCode !== undefined) return;
    const { terminal } = this.#sources;
    const { last } = this.#servers;
    const notes = [...(last === undefined ? [] : estimatorNotes(last)), ...this.#names.notes];
    this.#screen = layOut(
      {
        state: this.#state,
        rows: this.#rows,
        endpoints: endpointRowsOf(
          this.#endpoints.last?.servers.flatMap(({ endpoints }) => endpoints) ?? [],
          (one) => this.#endpoints.figuresOf(one),
        ),
        intervalText: this.#options.intervalText,
        notes: this.#failure === undefined ? notes : [this.#failure, ...notes],
      },
      terminal.size(),
    );
    terminal.write(painted(this.#screen.lines, this.#options.hasColor));
  }

  /** Waits until the next reading is due or a key requests one. Readings take at most half of the time. */
  async waitForNext(): Promise<void> {
    this.#wake = new AbortController();
    const pauseMs = Math.max(this.#options.intervalMs - this.#readMs, this.#readMs);
    await sleep(this.#sources.clock, pauseMs, this.#wake.signal);
  }

  onKey = (key: string): void => {
    const shown = this.#screen?.shown ?? { keys: [], pageSize: 1 };
    const { state, effect } = press(this.#state, key, shown);
    this.#state = state;
    if (effect === "quit") this.#end(0);
    if (effect === "read") this.#wake.abort();
    this.draw();
  };

  onResize = (): void => this.draw();

  onSignal = (exitCode: number): void => this.#end(exitCode);

  #end(exitCode: number): void {
    this.#exitCode ??= exitCode;
    this.#wake.abort();
  }

  #makeRows(): void {
    const servers = this.#servers.last?.servers ?? [];
    this.#rows = rowsOf(servers, this.#names.owners, (one) => this.#servers.figuresOf(one));
  }
}

/** Erases each line before writing it. Erasing afterwards would erase the last column of a full line. */
function painted(lines: readonly ScreenLine[], hasColor: boolean): string {
  return lines
    .map(({ text, code }, index) => {
      const shown = hasColor && code !== undefined ? `\u001b[${code}m${text}\u001b[0m` : text;
      return `\u001b[${index + 1};1H\u001b[2K${shown}`;
    })
    .join("");
}
