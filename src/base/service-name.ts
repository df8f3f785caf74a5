/** `namespace/name`: the key of a Service and of the slices that belong to it. */
export type ServiceName = string;
