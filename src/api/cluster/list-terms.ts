const pageSize = 500;

/** What the next list asks for: which state, and whether in pages. */
export class ListTerms {
  /** "0": any state will do, from the server's cache; empty: the newest; else one that is not older. */
  #version = "0";
  #usesPages = true;

  /** The query without selectors; `token`: of the page before, empty for the first page. */
  query(token: string): Readonly<Record<string, string>> {
    const page = this.#usesPages ? { limit: String(pageSize) } : {};
    // A page of a list that began earlier must not name a version: the token does.
    if (token !== "") return { ...page, continue: token };
    if (this.#version === "" || this.#version === "0") {
      return { ...page, resourceVersion: this.#version };
    }
    // Beside a limit the version alone would mean exactly that state, which may be forgotten.
    const match = { resourceVersionMatch: "NotOlderThan" };
    return { ...page, resourceVersion: this.#version, ...match };
  }

  askForNewest(): void {
    this.#version = "";
  }

  /** Another API server's cache may lag behind: what was reported is not to be undone. */
  askForNotOlderThan(position: string): void {
    this.#version = position;
  }

  /** A server that was set back does not have what was reported. */
  noteRefusal(): void {
    if (this.#version !== "0") this.#version = "";
  }

  /** A page token expired, or pages never end: the next list comes in one piece. */
  noteUselessPages(): void {
    this.#usesPages = false;
  }

  noteComplete(): void {
    this.#usesPages = true;
  }
}
