/** Web addresses that a release names. They have the form that GitHub uses. */

export interface Pages {
  readonly home: string;
  readonly documentation: string;
  readonly changelog: string;
  readonly icon: string;
}

/** `projectUrl` is the project's page. Undefined if it is empty, which means unknown. */
export function pagesOf(projectUrl: string, version: string): Pages | undefined {
  if (projectUrl === "") return undefined;
  return {
    home: projectUrl,
    documentation: `${projectUrl}/blob/v${version}/docs/README.md`,
    changelog: `${projectUrl}/blob/v${version}/CHANGELOG.md`,
    icon: `${projectUrl}/raw/v${version}/deploy/helm/icon.svg`,
  };
}
