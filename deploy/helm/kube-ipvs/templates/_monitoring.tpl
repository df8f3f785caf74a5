{{/* Takes a dict: monitor (podMonitor or serviceMonitor) and secure (secureMetrics). */}}
{{- define "kube-ipvs.endpoint" -}}
{{- $secure := .secure }}
{{- with .monitor -}}
- port: {{ ternary "secure-metrics" "metrics" (ne $secure.secretName "") }}
  {{- if $secure.secretName }}
  scheme: https
  {{- with $secure.tlsConfig }}
  tlsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $secure.tokenSecret }}
  authorization:
    credentials:
      {{- toYaml . | nindent 6 }}
  {{- else }}
  bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
  {{- end }}
  {{- end }}
  interval: {{ .interval }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  relabelings:
    - targetLabel: job
      replacement: {{ .job }}
    - sourceLabels:
        - __meta_kubernetes_pod_node_name
      targetLabel: instance
    {{- with .relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
