{{/* With cleanUp, the DaemonSet that removes the kernel state from nodes with the label kube-ipvs.io/proxy=clean-up. */}}
{{- define "kube-ipvs.daemonSet" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "kube-ipvs.daemonSetName" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "kube-ipvs.labels" . | nindent 4 }}
  {{- with .Values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "kube-ipvs.selectorLabels" . | nindent 6 }}
  minReadySeconds: {{ .Values.minReadySeconds }}
  {{- if not (kindIs "invalid" .Values.revisionHistoryLimit) }}
  revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
  {{- end }}
  updateStrategy:
    {{- toYaml .Values.updateStrategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "kube-ipvs.labels" . | nindent 8 }}
      annotations:
        # A configuration change triggers a rollout.
        checksum/config: {{ include "kube-ipvs.checksum" . }}
        {{- with .Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      hostNetwork: true
      priorityClassName: {{ .Values.priorityClassName }}
      serviceAccountName: {{ include "kube-ipvs.serviceAccount" . }}
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with (.Values.config.kubeIpvs).stopDelay }}
      {{- if not (regexMatch "^[0-9]+s$" .) }}
      {{- fail "config.kubeIpvs.stopDelay must be in whole seconds, such as 20s" }}
      {{- else if ge (int (trimSuffix "s" .)) (int ($.Values.terminationGracePeriodSeconds | default 30)) }}
      {{- fail "terminationGracePeriodSeconds (default 30) must be greater than config.kubeIpvs.stopDelay" }}
      {{- end }}
      {{- end }}
      {{- with .Values.terminationGracePeriodSeconds }}
      terminationGracePeriodSeconds: {{ . }}
      {{- end }}
      {{- with .Values.extraPodSpec }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      nodeSelector:
        {{- toYaml (merge (ternary (dict "kube-ipvs.io/proxy" "clean-up") dict (hasKey . "cleanUp")) .Values.nodeSelector) | nindent 8 }}
      {{- if and .Values.affinity (not .cleanUp) }}
      affinity:
        {{- toYaml .Values.affinity | nindent 8 }}
      {{- end }}
      tolerations:
        {{- toYaml .Values.tolerations | nindent 8 }}
      {{- if .cleanUp }}
      {{- include "kube-ipvs.cleanUp" . | nindent 6 }}
      {{- else }}
      {{- include "kube-ipvs.proxy" . | nindent 6 }}
      {{- end }}
      volumes:
        - name: kube-proxy
          configMap:
            name: {{ include "kube-ipvs.configMap" . }}
        - name: xtables-lock
          hostPath:
            path: /run/xtables.lock
            type: FileOrCreate
        - name: lib-modules
          hostPath:
            path: /lib/modules
        - name: run
          hostPath:
            path: /run/kube-ipvs
            type: DirectoryOrCreate
        - name: state
          hostPath:
            path: /var/lib/kube-ipvs
            type: DirectoryOrCreate
        - name: compile-cache
          emptyDir:
            sizeLimit: 64Mi
        {{- if and .Values.secureMetrics.secretName (not .cleanUp) }}
        - name: secure-metrics
          secret:
            secretName: {{ .Values.secureMetrics.secretName }}
        {{- end }}
        {{- with .Values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}
