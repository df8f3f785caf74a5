/** Derives the JSON Schemas of answers from their TypeScript types, as the compiler sees them. */
import { join } from "node:path";
import { API, type Checker, SymbolFlags, type Type, TypeFlags } from "typescript/unstable/sync";
import type { AnswerTypes } from "./answer-types.ts";

const typesFile = join(import.meta.dirname, "answer-types.ts");

const names: Readonly<Record<keyof AnswerTypes, true>> = {
  ...{
    status: true,
    services: true,
    explain: true,
    compare: true,
    drains: true,
    history: true,
    top: true,
    doctor: true,
  },
  ...{ plan: true, version: true, show: true, "all-nodes": true, e2e: true },
};

/** Commands and programs whose answers have a schema. */
export const schemaNames: readonly string[] = Object.keys(names);

type Schema = Readonly<Record<string, unknown>>;

let texts: ReadonlyMap<string, string> | undefined;

/** Compiles the program once. */
export function schemaText(name: string): string {
  texts ??= readSchemas();
  return texts.get(name) ?? "";
}

function readSchemas(): ReadonlyMap<string, string> {
  const api = new API();
  try {
    const snapshot = api.updateSnapshot({ openFiles: [typesFile] });
    const checker = snapshot.getDefaultProjectForFile(typesFile)?.checker;
    const symbol = checker?.resolveName("AnswerTypes", SymbolFlags.Interface, {
      ...{ document: typesFile, position: 0 },
    });
    if (checker === undefined || symbol === undefined) throw new Error(`No types in ${typesFile}`);
    const answers = checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol));
    return new Map(
      answers.map((answer) => {
        const schemas = new Schemas(checker);
        const root = schemas.of(typeOf(checker, answer));
        const schema = {
          $schema: "http://json-schema.org/draft-07/schema#",
          ...root,
          definitions: Object.fromEntries([...schemas.definitions].toSorted()),
        };
        return [answer.name, `${JSON.stringify(schema, undefined, 2)}\n`];
      }),
    );
  } finally {
    api.close();
  }
}

type Property = ReturnType<Checker["getPropertiesOfType"]>[number];

function typeOf(checker: Checker, symbol: Property): Type {
  const type = checker.getTypeOfSymbol(symbol);
  if (type === undefined) throw new Error(`No type for ${symbol.name}`);
  return type;
}

class Schemas {
  /** Schemas of named object types. */
  readonly definitions = new Map<string, Schema>();
  readonly #checker: Checker;
  readonly #ids = new Map<string, number>();

  constructor(checker: Checker) {
    this.#checker = checker;
  }

  of(type: Type): Schema {
    if ((type.flags & TypeFlags.String) !== 0) return { type: "string" };
    if ((type.flags & TypeFlags.Number) !== 0) return { type: "number" };
    if ((type.flags & TypeFlags.Boolean) !== 0) return { type: "boolean" };
    if ((type.flags & TypeFlags.Unknown) !== 0) return {};
    if (type.isLiteralType()) return { const: type.value };
    if (type.isUnionType()) return this.#union(type.getTypes());
    // A branded string, such as IpAddress.
    if (
      type.isIntersectionType() &&
      type.getTypes().some((one) => (one.flags & TypeFlags.String) !== 0)
    )
      return { type: "string" };
    if (type.isTypeReference() && this.#checker.isArrayType(type)) {
      const [items] = this.#checker.getTypeArguments(type);
      return { type: "array", items: items === undefined ? {} : this.of(items) };
    }
    return this.#named(type);
  }

  #union(all: readonly Type[]): Schema {
    const parts = all.filter(({ flags }) => (flags & TypeFlags.Undefined) === 0);
    const schemas = parts.map((one) => this.of(one));
    if (schemas.length === 1) return schemas[0] ?? {};
    if (!parts.every((one) => one.isLiteralType())) return { anyOf: schemas };
    return { enum: schemas.map((schema) => schema["const"]).toSorted() };
  }

  /** Object types with a name are definitions. */
  #named(type: Type): Schema {
    const symbol = type.getAliasSymbol() ?? type.getSymbol();
    const isGeneric = type.getAliasTypeArguments().length > 0 || type.isTypeReference();
    const name = symbol?.name ?? "";
    if (isGeneric || !/^[A-Z]\w*$/.test(name)) return this.#object(type);
    const known = this.#ids.get(name);
    if (known !== undefined && known !== type.id) throw new Error(`Two types are named ${name}`);
    if (known === undefined) {
      this.#ids.set(name, type.id);
      this.definitions.set(name, this.#object(type));
    }
    return { $ref: `#/definitions/${name}` };
  }

  #object(type: Type): Schema {
    const properties: Record<string, Schema> = {};
    const required: string[] = [];
    for (const symbol of this.#checker.getPropertiesOfType(type)) {
      const description = symbol.getDocumentationComment(this.#checker);
      const text = description.replaceAll(/\{@link\s+(\w+)\s*\}/g, "$1").replaceAll(/\s+/g, " ");
      properties[symbol.name] = {
        ...this.of(typeOf(this.#checker, symbol)),
        ...(text === "" ? {} : { description: text.trim() }),
      };
      if ((symbol.flags & SymbolFlags.Optional) === 0) required.push(symbol.name);
    }
    const [index] = this.#checker.getIndexInfosOfType(type);
    return {
      type: "object",
      ...(Object.keys(properties).length > 0 ? { properties } : {}),
      ...(index === undefined ? {} : { additionalProperties: this.of(index.valueType) }),
      ...(required.length > 0 ? { required } : {}),
    };
  }
}
