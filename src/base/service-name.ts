/** `namespace/name`: the key of a Service and of its EndpointSlices. */
export type ServiceName = string;
