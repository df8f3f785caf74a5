/**
 * Implements the part of role-based access control that tests need: whether a role's rules allow a request. Pure.
 */

/** A rule of a Role or ClusterRole. */
export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Undefined if the rule applies to all names. */
  readonly resourceNames?: readonly string[];
}

/** Rules that apply in one namespace, or everywhere. */
export interface Grant {
  readonly namespace?: string;
  readonly rules: readonly PolicyRule[];
}

export interface Attributes {
  readonly verb: string;
  readonly group: string;
  /** The requested resource, such as `pods` or `pods/exec`. */
  readonly resource: string;
  readonly namespace?: string;
  /** The object's name. Undefined for a collection. */
  readonly name?: string;
}

export function isAllowed(
  grants: readonly Grant[],
  { verb, group, resource, namespace, name = "" }: Attributes,
): boolean {
  return grants
    .filter((grant) => grant.namespace === undefined || grant.namespace === namespace)
    .flatMap(({ rules }) => rules)
    .some(
      (rule) =>
        rule.apiGroups.includes(group) &&
        rule.resources.includes(resource) &&
        rule.verbs.includes(verb) &&
        (rule.resourceNames?.includes(name) ?? true),
    );
}

const pathForm =
  /^\/(?:api|apis\/([^/]+))\/v1(?:\/namespaces\/([^/]+)(?=\/))?\/([a-z]+)(?:\/([^/]+)(?:\/([a-z]+))?)?$/;
const verbs: Readonly<Record<string, string>> = {
  POST: "create",
  PATCH: "patch",
  DELETE: "delete",
};

/** Reads the attributes of a request. Undefined for a path that every user may read, such as `/version`. */
export function attributesOf(
  method: string,
  path: string,
  query: URLSearchParams,
): Attributes | undefined {
  const [match, group = "", namespace, collection = "", name, part] = pathForm.exec(path) ?? [];
  if (match === undefined) return undefined;
  const isWatch = ["1", "true"].includes(query.get("watch") ?? "");
  const reading = name !== undefined ? "get" : isWatch ? "watch" : "list";
  return {
    verb: verbs[method] ?? reading,
    group,
    resource: part === undefined ? collection : `${collection}/${part}`,
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
  };
}
