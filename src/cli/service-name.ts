/** Parses the Service in a command's argument: `web`, `svc/web`, `shop/web`, `shop/web:http` or `shop/web:80`. Pure. */

export interface ServiceNamed {
  readonly namespace: string;
  readonly name: string;
  /** The name or number of a port. All ports are selected if undefined. */
  readonly port?: string;
}

/** Parses the name of a Service. Undefined if the text has a different form. */
export function serviceNamed(text: string, byDefault: string): ServiceNamed | undefined {
  const pattern = /^(?:(?:svc|services?)\/)?(?:([\w-]+)\/)?([\w-]+)(?::([\w-]+))?$/;
  const [, namespace = byDefault, name, port] = pattern.exec(text) ?? [];
  if (name === undefined) return undefined;
  return { namespace, name, ...(port === undefined ? {} : { port }) };
}

/** Whether a row or an explanation is about the port. */
export function isAtPort(
  port: string | undefined,
  one: { readonly portName?: string | undefined; readonly port: number },
): boolean {
  return port === undefined || port === one.portName || port === String(one.port);
}
