const pageSize = 500;

/** Parameters of the next list: which resourceVersion to request, and whether to use pages. */
export class ListTerms {
  /**
   * "0" accepts any state from the server's cache. Empty requests the latest state. Any other version requests a state
   * at least that new.
   */
  #version = "0";
  #usesPages = true;

  /** The query without selectors. `token` is the previous page's continue token, or empty for the first page. */
  query(token: string): Readonly<Record<string, string>> {
    const page = this.#usesPages ? { limit: String(pageSize) } : {};
    // Only the first page may contain a version. The token determines the version of later pages.
    if (token !== "") return { ...page, continue: token };
    if (this.#version === "" || this.#version === "0") {
      return { ...page, resourceVersion: this.#version };
    }
    // Combined with a limit, a version alone would request exactly that state, which the server may no longer have.
    const match = { resourceVersionMatch: "NotOlderThan" };
    return { ...page, resourceVersion: this.#version, ...match };
  }

  askForNewest(): void {
    this.#version = "";
  }

  /** Requests a state that is not older than `position`, because another API server's cache may lag behind. */
  askForNotOlderThan(position: string): void {
    this.#version = position;
  }

  /** Drops the version, because a server that was restored from a backup does not have it. */
  noteRefusal(): void {
    if (this.#version !== "0") this.#version = "";
  }

  /** Disables paging for the next list. Called if a page token expired or the pages never end. */
  noteUselessPages(): void {
    this.#usesPages = false;
  }

  noteComplete(): void {
    this.#usesPages = true;
  }
}
