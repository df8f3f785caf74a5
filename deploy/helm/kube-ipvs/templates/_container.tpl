{{/*
Fields shared by the init container and the container. The privileged init container does not use the compile cache,
because code that the container wrote there would run privileged.
*/}}
{{- define "kube-ipvs.container" -}}
env:
  - name: NODE_NAME
    valueFrom:
      fieldRef:
        fieldPath: spec.nodeName
  {{- if .privileged }}
  - name: NODE_DISABLE_COMPILE_CACHE
    value: "1"
  {{- else }}
  - name: NODE_COMPILE_CACHE
    value: /var/cache/kube-ipvs
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml (ternary (.Values.initResources | default .Values.resources) .Values.resources (hasKey . "privileged")) | nindent 2 }}
volumeMounts:
  - name: kube-proxy
    mountPath: /var/lib/kube-proxy
    readOnly: true
  - name: xtables-lock
    mountPath: /run/xtables.lock
  - name: lib-modules
    mountPath: /lib/modules
    readOnly: true
  - name: run
    mountPath: /run/kube-ipvs
  {{- if not .privileged }}
  - name: state
    mountPath: /var/lib/kube-ipvs
  - name: compile-cache
    mountPath: /var/cache/kube-ipvs
  {{- if and .Values.secureMetrics.secretName (not .cleanUp) }}
  - name: secure-metrics
    mountPath: /etc/kube-ipvs/metrics
    readOnly: true
  {{- end }}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "kube-ipvs.securityContext" -}}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
  add:
    {{- toYaml .Values.capabilities | nindent 4 }}
seccompProfile:
  {{- toYaml .Values.seccompProfile | nindent 2 }}
{{- end }}

{{- define "kube-ipvs.ports" -}}
{{- $metrics := "10249" }}
{{- $healthz := "10256" }}
{{- if .Values.observeOnly }}
{{- $metrics = "10349" }}
{{- $healthz = "10356" }}
{{- else if not .Values.existingConfigMap }}
{{- $metrics = include "kube-ipvs.port" .Values.config.metricsBindAddress }}
{{- $healthz = include "kube-ipvs.port" .Values.config.healthzBindAddress }}
{{- end -}}
ports:
  - name: metrics
    containerPort: {{ $metrics }}
  - name: healthz
    containerPort: {{ $healthz }}
  {{- if .Values.secureMetrics.secretName }}
  - name: secure-metrics
    containerPort: {{ .Values.secureMetrics.port }}
  {{- end }}
{{- end }}

{{/* Takes a dict of path and root. By default, the kubelet probes the node's address, where the program may not listen. */}}
{{- define "kube-ipvs.httpGet" -}}
httpGet:
  path: {{ .path }}
  port: healthz
  {{- if and (not .root.Values.existingConfigMap) (not .root.Values.observeOnly) }}
  {{- with regexFind "^(127\\.[0-9.]+|\\[::1\\])" .root.Values.config.healthzBindAddress }}
  host: {{ trimAll "[]" . | quote }}
  {{- end }}
  {{- end }}
{{- end }}
