/** The documents that are generated: `make docs` writes them, a test compares them with what is there. */
import { chartReadme } from "./chart.ts";
import { configurationDocument } from "./configuration.ts";
import { metricsDocument } from "./metrics.ts";
import { terminalPicture } from "./picture.ts";

/** Text by path from the project's root. */
export const documents: Readonly<Record<string, () => string>> = {
  "deploy/helm/kube-ipvs/README.md": chartReadme,
  "docs/configuration.md": configurationDocument,
  "docs/metrics.md": metricsDocument,
  "docs/pictures/explain-light.svg": () => terminalPicture("light"),
  "docs/pictures/explain-dark.svg": () => terminalPicture("dark"),
};
