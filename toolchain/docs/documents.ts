/** The generated documents: `make docs` writes them, and a test compares them with the existing files. */
import { chartReadme } from "./chart.ts";
import { configurationDocument } from "./configuration.ts";
import { metricsDocument } from "./metrics.ts";
import { terminalPicture } from "./picture.ts";
import { schemaNames, schemaText } from "./schemas.ts";

const schemas = Object.fromEntries(
  schemaNames.map((name) => [`docs/schemas/${name}.json`, () => schemaText(name)]),
);

/** Document text by path relative to the project's root. */
export const documents: Readonly<Record<string, () => string>> = {
  "deploy/helm/kube-ipvs/README.md": chartReadme,
  "docs/configuration.md": configurationDocument,
  "docs/metrics.md": metricsDocument,
  "docs/pictures/explain-light.svg": () => terminalPicture("light"),
  "docs/pictures/explain-dark.svg": () => terminalPicture("dark"),
  ...schemas,
};
