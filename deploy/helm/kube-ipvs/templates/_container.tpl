{{/* What the init container and the container have in common. */}}
{{- define "kube-ipvs.container" -}}
env:
  - name: NODE_NAME
    valueFrom:
      fieldRef:
        fieldPath: spec.nodeName
  - name: NODE_COMPILE_CACHE
    value: /var/cache/kube-ipvs
resources:
  {{- toYaml .Values.resources | nindent 2 }}
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
  - name: compile-cache
    mountPath: /var/cache/kube-ipvs
{{- end }}
