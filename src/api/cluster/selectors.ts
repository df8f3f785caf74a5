import type { ApiError } from "../api-error.ts";
import type { WatchedResource } from "./watched-resources.ts";

export type Selectors = Readonly<Record<string, string>>;

/** BadRequest in the words of the API server: of a resource with fields of its own, and of any other. */
const unknownField = /field label not supported|is not a known field selector/;

/** The selectors of a resource; those that the API server does not know are left out for good. */
export class ResourceSelectors {
  readonly #resource: Pick<WatchedResource, "selectors" | "optionalSelectors">;
  #current: Selectors;

  constructor(resource: Pick<WatchedResource, "selectors" | "optionalSelectors">) {
    this.#resource = resource;
    this.#current = { ...resource.selectors, ...resource.optionalSelectors };
  }

  get current(): Selectors {
    return this.#current;
  }

  /**
   * Leaves the optional selectors out where `error` says that the server does not know one of them. Returns them;
   * undefined: it is about something else, or they were left out before.
   */
  dropUnknown({ status, message }: Pick<ApiError, "status" | "message">): Selectors | undefined {
    const { selectors, optionalSelectors } = this.#resource;
    if (optionalSelectors === undefined || this.#current === selectors) return undefined;
    if (status !== 400 || !unknownField.test(message)) return undefined;
    this.#current = selectors;
    return optionalSelectors;
  }
}
