{{/* An endpoint of a PodMonitor or ServiceMonitor. */}}
{{- define "kube-ipvs.endpoint" -}}
- port: metrics
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
