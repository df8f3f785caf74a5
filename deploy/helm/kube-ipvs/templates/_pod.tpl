{{/* The proxy's initContainers and containers. */}}
{{- define "kube-ipvs.proxy" -}}
{{- $command := list "/usr/local/bin/kube-proxy" "--config=/var/lib/kube-proxy/config.conf" "--hostname-override=$(NODE_NAME)" }}
{{- if gt (int .Values.verbosity) 0 }}
{{- $command = append $command (printf "-v=%d" (int .Values.verbosity)) }}
{{- end }}
{{- $command = concat $command .Values.extraArgs }}
{{- $role := ternary "--kube-ipvs-observe-only" "--kube-ipvs-wait-for-kube-proxy" .Values.observeOnly }}
{{- $roles := list $role }}
{{- if and .Values.removeNotReadyTaint (not .Values.observeOnly) }}
{{- $roles = prepend $roles "--kube-ipvs-remove-not-ready-taint" }}
{{- end }}
{{- with .Values.secureMetrics }}
{{- if .secretName }}
{{- $roles = append $roles (printf "--kube-ipvs-secure-metrics-bind-address=0.0.0.0:%d" (int .port)) }}
{{- $roles = concat $roles (list "--kube-ipvs-secure-metrics-cert-file=/etc/kube-ipvs/metrics/tls.crt" "--kube-ipvs-secure-metrics-key-file=/etc/kube-ipvs/metrics/tls.key") }}
{{- end }}
{{- end }}
{{- $isPrepared := and .Values.prepareNode (not .Values.observeOnly) }}
{{- if or $isPrepared .Values.extraInitContainers -}}
initContainers:
  {{- if $isPrepared }}
  - name: prepare-node
    image: {{ include "kube-ipvs.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
      {{- toYaml (append $command "--init-only") | nindent 6 }}
    {{- include "kube-ipvs.container" (dict "Values" .Values "privileged" true) | nindent 4 }}
    securityContext:
      privileged: true
      readOnlyRootFilesystem: true
  {{- end }}
  {{- with .Values.extraInitContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{ end -}}
containers:
  - name: kube-ipvs
    image: {{ include "kube-ipvs.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
      {{- toYaml (concat $command $roles) | nindent 6 }}
    {{- include "kube-ipvs.container" . | nindent 4 }}
    {{- include "kube-ipvs.ports" . | nindent 4 }}
    startupProbe:
      {{- include "kube-ipvs.httpGet" (dict "path" "/readyz" "root" .) | nindent 6 }}
      {{- with .Values.startupProbe }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- if not .Values.observeOnly }}
    livenessProbe:
      {{- include "kube-ipvs.httpGet" (dict "path" "/livez" "root" .) | nindent 6 }}
      {{- with .Values.livenessProbe }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- end }}
    readinessProbe:
      {{- include "kube-ipvs.httpGet" (dict "path" "/readyz" "root" .) | nindent 6 }}
      {{- with .Values.readinessProbe }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    securityContext:
      {{- include "kube-ipvs.securityContext" . | nindent 6 }}
  {{- with .Values.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Cleans the node, then waits, so the pod is Ready on each clean node. */}}
{{- define "kube-ipvs.cleanUp" -}}
initContainers:
  - name: clean-up
    image: {{ include "kube-ipvs.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
      - /usr/local/bin/kube-proxy
      - --config=/var/lib/kube-proxy/config.conf
      - --hostname-override=$(NODE_NAME)
      - --cleanup
    {{- include "kube-ipvs.container" . | nindent 4 }}
    securityContext:
      {{- include "kube-ipvs.securityContext" . | nindent 6 }}
containers:
  - name: done
    image: {{ include "kube-ipvs.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
      - /usr/local/bin/kube-ipvs
      - wait
    resources:
      {{- toYaml .Values.resources | nindent 6 }}
    securityContext:
      privileged: false
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      runAsNonRoot: true
      runAsUser: 65534
      capabilities:
        drop:
          - ALL
      seccompProfile:
        {{- toYaml .Values.seccompProfile | nindent 8 }}
{{- end }}
