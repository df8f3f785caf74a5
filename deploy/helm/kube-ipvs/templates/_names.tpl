{{- define "kube-ipvs.name" -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kube-ipvs.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "kube-ipvs.name" .) }}
{{- end }}

{{- define "kube-ipvs.configMap" -}}
{{ .Values.existingConfigMap | default (include "kube-ipvs.name" .) }}
{{- end }}

{{- define "kube-ipvs.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "kube-ipvs.labels" -}}
k8s-app: {{ .Values.appLabel }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "kube-ipvs.port" -}}
{{ . | splitList ":" | last }}
{{- end }}
